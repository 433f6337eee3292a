package projector_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/history/internal/projector"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/agentbus/agentbus/services/history/internal/store/sqlite"
	"github.com/agentbus/agentbus/services/history/internal/store/storetest"
)

// stream is what JetStream holds of one request: frames, the oldest of which it may have forgotten.
type stream []bus.Entry

func (stream) Now() time.Time { return time.Now() }

func (s stream) Read(_ context.Context, id bus.LogID, from uint64) iter.Seq2[event.Frame, error] {
	return func(yield func(event.Frame, error) bool) {
		for _, e := range s {
			if e.RequestID != id.RequestID || e.Frame.Next() <= from {
				continue
			}
			if e.Frame.First > from {
				yield(event.Frame{}, fmt.Errorf("event %d: %w", from, bus.ErrExpired))
				return
			}
			f := e.Frame.From(from)
			f.Sequence = e.Sequence
			from = f.Next()
			if !yield(f, nil) {
				return
			}
		}
	}
}

func delivered(entries []store.Entry) []bus.Entry {
	all := make([]bus.Entry, len(entries))
	for i, e := range entries {
		all[i] = bus.Entry{
			Tenant: e.Tenant, ThreadID: e.ThreadID, RequestID: e.RequestID, Sequence: uint64(i + 1), Time: e.Time,
			Accepted: e.Accepted, Thread: e.Thread, Session: e.Session, Frame: e.Frame,
		}
	}
	return all
}

func open(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return store.Of(s)
}

func recorder(t *testing.T, s store.Recorder, log projector.Log, out *strings.Builder) *projector.Projector {
	t.Helper()
	handler := slog.DiscardHandler
	if out != nil {
		handler = slog.NewTextHandler(out, nil)
	}
	r, err := projector.New(s, log, slog.New(handler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func apply(t *testing.T, r *projector.Projector, batch ...bus.Entry) []error {
	t.Helper()
	errs, err := r.Apply(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	return errs
}

func log(t *testing.T, s store.Store, l storetest.Log) []uint64 {
	t.Helper()
	events, err := s.Events(t.Context(), store.Events{Tenant: l.Tenant, RequestID: l.RequestID, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var all []uint64
	for _, e := range events {
		all = append(all, e.N)
	}
	return all
}

func TestFetchesWhatIsMissing(t *testing.T) {
	t.Parallel()
	s, l := open(t), storetest.NewLog("thr", 0)
	frames := delivered(l.Frames(2, l.Bodies(13)...)) // 20 events
	r := recorder(t, s, stream(frames), nil)
	for i, err := range apply(t, r, frames[9], frames[4], frames[7]) {
		if err != nil {
			t.Errorf("entry %d: got %v, want it stored with what comes before it", i, err)
		}
	}
	if got := log(t, s, l); len(got) != 20 {
		t.Errorf("got events %v, want 20", got)
	}
}

func TestContinuesAfterTheStartHasExpired(t *testing.T) {
	t.Parallel()
	for _, first := range []int{9, 5, 4} { // whichever is delivered first
		s, l := open(t), storetest.NewLog("thr", 0)
		frames := delivered(l.Frames(2, l.Bodies(13)...))
		var out strings.Builder
		r := recorder(t, s, stream(frames[4:]), &out)
		for i, err := range apply(t, r, frames[first], frames[6]) {
			if err != nil {
				t.Errorf("entry %d: got %v, want it stored", i, err)
			}
		}
		apply(t, r, frames[4:]...)
		if got := log(t, s, l); len(got) != 12 || got[0] != 8 {
			t.Errorf("got events %v, want 8 to 19", got)
		}
		if !strings.Contains(out.String(), "from=0 to=8") {
			t.Errorf("got log %q, want it to say what is lost", out.String())
		}
	}
}

func TestLeavesAHoleThatItCannotFill(t *testing.T) {
	t.Parallel()
	s, l := open(t), storetest.NewLog("thr", 0)
	frames := delivered(l.Frames(2, l.Bodies(3)...))
	r := recorder(t, s, stream(nil), nil) // a stream that does not answer looks like this
	if errs := apply(t, r, frames[1]); !errors.Is(errs[0], store.ErrHole) {
		t.Errorf("got %v, want a hole, so that the entry comes again", errs[0])
	}
	apply(t, r, frames[0], frames[1])
	if got := log(t, s, l); len(got) != 4 {
		t.Errorf("got events %v, want 4", got)
	}
}

func TestDropsWhatContradictsTheStore(t *testing.T) {
	t.Parallel()
	s, l := open(t), storetest.NewLog("thr", 0)
	var out strings.Builder
	r := recorder(t, s, stream(nil), &out)
	batch := delivered([]store.Entry{l.Frame(0, event.Aborted{}), l.Frame(1, event.Aborted{})})
	for i, err := range apply(t, r, batch...) {
		if err != nil {
			t.Errorf("entry %d: got %v, want it done with", i, err)
		}
	}
	if !strings.Contains(out.String(), "contradicts") {
		t.Errorf("got log %q, want it to say what was left out", out.String())
	}
}

func TestReportsMoreStored(t *testing.T) {
	t.Parallel()
	s, l := open(t), storetest.NewLog("thr", 0)
	r := recorder(t, s, stream(nil), nil)
	changed := r.Changed()
	select {
	case <-changed:
		t.Fatal("it says so before anything came")
	default:
	}
	apply(t, r, delivered(l.All(1))...)
	select {
	case <-changed:
	default:
		t.Error("it does not say so")
	}
}

// picky refuses one entry, as a database does that cannot hold what is in it.
type picky struct {
	store.Recorder
	refuse uint64
}

func (p picky) Apply(ctx context.Context, entries []store.Entry, known store.Known) (store.Result, error) {
	for _, e := range entries {
		if e.Sequence == p.refuse {
			return store.Result{}, fmt.Errorf("row: %w", store.ErrRefused)
		}
	}
	return p.Recorder.Apply(ctx, entries, known)
}

func TestOneRefusedEntryDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	s := open(t)
	var entries []store.Entry
	for i := range 9 {
		l := storetest.NewLog("thr", i)
		entries = append(entries, l.Frame(0, l.Bodies(0)...))
	}
	r := recorder(t, picky{s, 4}, stream(nil), nil)
	for i, err := range apply(t, r, delivered(entries)...) {
		if got, want := errors.Is(err, store.ErrRefused), i == 3; got != want {
			t.Errorf("entry %d: got %v", i, err)
		}
		if got, want := len(log(t, s, storetest.NewLog("thr", i))) > 0, i != 3; got != want {
			t.Errorf("entry %d: stored is %v, want %v", i, got, want)
		}
	}
}

// flaky is a database that is down for a while.
type flaky struct {
	mu   sync.Mutex
	down bool
}

func (f *flaky) Apply(_ context.Context, entries []store.Entry, _ store.Known) (store.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return store.Result{}, errors.New("connection refused")
	}
	return store.Result{Errors: make([]error, len(entries))}, nil
}

func TestAnOutageIsLoggedOnceAndSlowsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		f := &flaky{down: true}
		r := recorder(t, f, stream(nil), &out)
		begun := time.Now()
		for range 10 {
			if _, err := r.Apply(t.Context(), make([]bus.Entry, 1)); err == nil {
				t.Fatal("got no error from a database that is down")
			}
		}
		if got, want := time.Since(begun), 26300*time.Millisecond; got != want { // 0.1 0.2 0.4 … 3.2 5 5 5 5
			t.Errorf("10 tries took %s, want %s", got, want)
		}
		f.down = false
		apply(t, r, bus.Entry{})
		f.down = true
		if _, err := r.Apply(t.Context(), make([]bus.Entry, 1)); err == nil {
			t.Fatal("got no error from a database that is down")
		}
		if got := strings.Count(out.String(), "cannot store"); got != 2 {
			t.Errorf("two outages were logged %d times", got)
		}
		if got := strings.Count(out.String(), "stores events again"); got != 1 {
			t.Errorf("one recovery was logged %d times", got)
		}
	})
}
