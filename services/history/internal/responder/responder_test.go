package responder

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/agentbus/agentbus/services/history/internal/store/sqlite"
	"github.com/agentbus/agentbus/services/history/internal/store/storetest"
)

// idle is the recorder of a process that stores nothing.
type idle struct{}

func (idle) Changed() <-chan struct{}    { return nil }
func (idle) Hurry()                      {}
func (idle) Check(context.Context) error { return nil }
func (idle) Ready() error                { return nil }

func open(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return store.Of(s)
}

// counting is an idle recorder that counts how often it was asked to hurry.
type counting struct {
	idle
	hurried *atomic.Int64
}

func (c counting) Hurry() { c.hurried.Add(1) }

// put writes the records of a log to the bus, and its events when they are given.
func put(t *testing.T, b *bus.Bus, l storetest.Log, after uint64, bodies ...event.Body) (sequence uint64) {
	t.Helper()
	if _, _, err := b.Accept(t.Context(), *l.Accepted().Accepted); err != nil {
		t.Fatal(err)
	}
	record, err := b.AdvanceThread(t.Context(), l.Tenant, *l.Thread().Thread, after)
	if err != nil {
		t.Fatal(err)
	}
	if len(bodies) == 0 {
		return record.Sequence
	}
	w, _, err := b.Claim(t.Context(), bus.LogID{Tenant: l.Tenant, RequestID: l.RequestID}, "runner", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, body := range bodies {
		if err := w.Emit(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return record.Sequence
}

func TestGivesUpWhenTheProjectionStaysBehind(t *testing.T) {
	t.Parallel()
	b, s, l := bustest.New(t), open(t), storetest.NewLog("thr", 0)
	put(t, b, l, 0, l.Bodies(2)[1:]...)
	var hurried atomic.Int64
	a := New(s.Reader, b, counting{hurried: &hurried}, idle{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := a.Thread(ctx, historyapi.ThreadRef{Tenant: l.Tenant, ThreadID: l.ThreadID})
	f, ok := errors.AsType[*apierr.Error](err)
	if !ok || f.Code != apierr.Unavailable || !f.Retryable || f.RetryAfter == 0 {
		t.Errorf("got %v, want unavailable, and when to come again", err)
	}
	if hurried.Load() == 0 {
		t.Error("it waited without hurrying the recorder")
	}
}

func TestWaitsForEveryEarlierRequest(t *testing.T) {
	t.Parallel()
	b, s := bustest.New(t), open(t)
	first, second := storetest.NewLog("thr", 0), storetest.NewLog("thr", 1)
	sequence := put(t, b, first, 0, first.Bodies(2)[1:]...)
	put(t, b, second, sequence)
	a := New(s.Reader, b, idle{}, idle{})
	store2 := func(entries ...store.Entry) {
		if _, err := s.Apply(t.Context(), entries, store.Known{}); err != nil {
			t.Fatal(err)
		}
	}
	ref := historyapi.ThreadRef{Tenant: first.Tenant, ThreadID: "thr"}
	frames := first.Frames(3, first.Bodies(2)...)
	store2(second.Accepted(), second.Thread(), first.Accepted(), first.Thread(), frames[0])

	answered := make(chan error, 1)
	go func() {
		_, err := a.Thread(t.Context(), ref)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("it answered (%v) though an earlier request is not stored to its end", err)
	case <-time.After(3 * interval):
	}
	store2(frames[1:]...)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestDoesNotWaitForWhatIsForgotten(t *testing.T) {
	t.Parallel()
	b, s := bustest.New(t), open(t)
	l := storetest.NewLog("thr", 5) // the stream no longer has the requests 0 to 4, and neither has the store
	put(t, b, l, 0)
	if _, err := s.Apply(t.Context(), []store.Entry{l.Accepted(), l.Thread()}, store.Known{}); err != nil {
		t.Fatal(err)
	}
	a := New(s.Reader, b, idle{}, idle{})
	begun := time.Now()
	if _, err := a.Thread(t.Context(), historyapi.ThreadRef{Tenant: l.Tenant, ThreadID: "thr"}); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > historyapi.ProjectionTimeout/2 {
		t.Errorf("it took %s, want an answer at once", took)
	}
}

func TestAnswersFromTheStoreWhatTheStreamForgot(t *testing.T) {
	t.Parallel()
	b, s, l := bustest.New(t), open(t), storetest.NewLog("thr", 0)
	if _, err := s.Apply(t.Context(), l.All(3), store.Known{}); err != nil {
		t.Fatal(err)
	}
	a := New(s.Reader, b, idle{}, idle{})
	thread, err := a.Thread(t.Context(), historyapi.ThreadRef{Tenant: l.Tenant, ThreadID: "thr"})
	if err != nil || thread.LastRequestID != l.RequestID {
		t.Errorf("got thread %+v, %v", thread, err)
	}
	page, err := a.Frames(t.Context(), historyapi.FramesQuery{
		RequestRef: historyapi.RequestRef{Tenant: l.Tenant, RequestID: l.RequestID}, From: 4,
	})
	if err != nil || len(page.Frames) != 1 || page.Frames[0].First != 4 || page.Frames[0].Incarnation != l.Incarnation {
		t.Errorf("got frames %+v, %v", page, err)
	}
}

func TestADatabaseThatIsDownIsWorthAnotherTry(t *testing.T) {
	t.Parallel()
	b, s, l := bustest.New(t), open(t), storetest.NewLog("thr", 0)
	put(t, b, l, 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	handle := New(s.Reader, b, idle{}, idle{}).Verbs()[historyapi.VerbThread]
	_, err := handle(t.Context(), []byte(`{"tenant":"acme","threadId":"thr"}`))
	if f := apierr.From(err); f.Code != apierr.Unavailable || !f.Retryable {
		t.Errorf("got %v, want unavailable", err)
	}
}

func TestOpenRequestsComeInPages(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, thread := range []string{"a", "b", "c", "x/d", "x/e"} {
		l := storetest.NewLog(strings.TrimPrefix(thread, "x/"), 0)
		if strings.HasPrefix(thread, "x/") {
			l.Tenant = "xylo"
		}
		if _, err := s.Apply(t.Context(), []store.Entry{l.Accepted(), l.Thread()}, store.Known{}); err != nil {
			t.Fatal(err)
		}
	}
	a := New(s.Reader, bustest.New(t), idle{}, idle{})
	for _, test := range []struct {
		name, tenant string
		want         []string
	}{
		{"of all tenants", "", []string{"a", "b", "c", "d", "e"}},
		{"of the first tenant", storetest.Tenant, []string{"a", "b", "c"}},
		{"of the last tenant", "xylo", []string{"d", "e"}},
		{"of a tenant that has none", "between", nil},
	} {
		var threads []string
		for q := (historyapi.OpenQuery{Before: time.Now(), Tenant: test.tenant, Limit: 2}); ; {
			page, err := a.Open(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Requests {
				threads = append(threads, r.ThreadID)
			}
			if q.Cursor = page.NextCursor; q.Cursor == "" {
				break
			}
		}
		if !slices.Equal(threads, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, threads, test.want)
		}
	}
	if _, err := a.Open(t.Context(), historyapi.OpenQuery{Cursor: "?"}); apierr.CodeOf(err) != apierr.InvalidMessageFormat {
		t.Errorf("an invalid cursor gives %v", err)
	}
}
