package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/agent-runner/internal/reaper"
)

const (
	every     = 15 * time.Second
	timeLimit = 10 * time.Minute
)

// request is the state of a request, as the broker has it.
type request struct {
	expired bool            // it has no accept record any more
	events  []time.Duration // the ages of its frames, the oldest first; none = not begun
	ended   bool
	abort   time.Duration // the age of the abort; 0 = none
	age     time.Duration // since it was accepted
}

// world has one request, and notes what a reaper does with it. It is safe for concurrent use.
type world struct {
	request
	readErr error // of Last
	fenced  bool  // another process claims the request
	start   time.Time

	mu   sync.Mutex
	done []string
	next chan record.Abort // what WatchAborts finds
}

func (w *world) did(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, fmt.Sprintf(format, args...))
}

func (w *world) frames() []event.Frame {
	var all []event.Frame
	for i, age := range w.events {
		f := event.Frame{First: uint64(i), Names: []event.Name{event.NameText}, Time: w.start.Add(-age)}
		if w.ended && i == len(w.events)-1 {
			f.Names = []event.Name{event.NameDone}
		}
		all = append(all, f)
	}
	return all
}

func (w *world) WatchAborts(ctx context.Context, found func(string, record.Abort)) error {
	for {
		select {
		case a := <-w.next:
			found("acme", a)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *world) Accepted(context.Context, bus.LogID) (record.Accepted, error) {
	if w.expired {
		return record.Accepted{}, bus.ErrNotFound
	}
	return record.Accepted{Tenant: "acme", RequestID: "req_1", AgentID: "demo"}, nil
}

func (w *world) Aborted(context.Context, bus.LogID) (record.Abort, error) {
	if w.abort == 0 {
		return record.Abort{}, bus.ErrNotFound
	}
	return record.Abort{RequestID: "req_1", Reason: "the user", At: w.start.Add(-w.abort)}, nil
}

func (w *world) Last(context.Context, bus.LogID) (event.Frame, error) {
	if all := w.frames(); len(all) > 0 && w.readErr == nil {
		return all[len(all)-1], nil
	}
	if w.readErr != nil {
		return event.Frame{}, w.readErr
	}
	return event.Frame{}, bus.ErrNotFound
}

func (w *world) Read(context.Context, bus.LogID, uint64) iter.Seq2[event.Frame, error] {
	return func(yield func(event.Frame, error) bool) {
		for _, f := range w.frames() {
			if !yield(f, nil) {
				return
			}
		}
	}
}

func (w *world) AdvanceBacklog(context.Context, uint64) (uint64, error) { return 0, nil }

// Now is constant, so that the ages of a case are exact.
func (w *world) Now() time.Time { return w.start }

func (w *world) Open(_ context.Context, q historyapi.OpenQuery) (historyapi.OpenPage, error) {
	if want := w.start.Add(-2 * every).UTC(); !q.Before.Equal(want) {
		w.did("asked for requests before %v, want %v", q.Before, want)
	}
	r := historyapi.OpenRequest{ThreadID: "thr_1", AgentID: "demo", CreatedAt: w.start.Add(-w.age)}
	r.Tenant, r.RequestID = "acme", "req_1"
	return historyapi.OpenPage{Requests: []historyapi.OpenRequest{r}}, nil
}

func (w *world) Conclude(_ context.Context, _ record.Accepted, cause error) error {
	if w.fenced {
		return bus.ErrFenced
	}
	w.did("end: %v", cause)
	return nil
}

func (w *world) Time(string) time.Duration { return timeLimit }

func (w *world) Next(context.Context, string, string, int) (bool, error) {
	w.did("next")
	return true, nil
}

func (w *world) EnsurePointer(context.Context, record.Accepted) (bool, error) {
	w.did("pointer")
	return true, nil
}

// run lets a reaper work for a time, and returns what it did and what it counted.
func (w *world) run(t *testing.T, during time.Duration, act func()) (did, counted []string) {
	t.Helper()
	w.start, w.next = time.Now(), make(chan record.Abort)
	var mu sync.Mutex
	r := reaper.New(reaper.Deps{
		Bus: w, History: w, Requests: w, Queue: w, Every: every, Log: slog.New(slog.DiscardHandler),
		Count: func(_ context.Context, what string) {
			mu.Lock()
			defer mu.Unlock()
			counted = append(counted, what)
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	act()
	running.Wait()
	return w.done, counted
}

// TestASweep runs one sweep for each state that a request can be in.
func TestASweep(t *testing.T) {
	t.Parallel()
	const timedOut = "end: stream_timeout"
	tests := []struct {
		name    string
		world   *world
		did     []string
		counted []string
	}{
		{"a request that has ended is left alone", &world{request: request{events: []time.Duration{time.Hour, time.Hour}, ended: true, age: time.Hour}}, nil, nil},
		{"one with a young event is left alone", &world{request: request{events: []time.Duration{time.Hour, 2*every - 1}, age: time.Hour}}, nil, nil},
		{"one whose record has expired is left alone", &world{request: request{expired: true, age: time.Hour}}, nil, nil},
		{"a quiet one gets its pointer", &world{request: request{events: []time.Duration{time.Minute, 2 * every}, age: time.Minute}},
			[]string{"pointer"}, []string{reaper.Pointed}},
		{"one that has not begun gets its turn", &world{request: request{age: time.Hour}}, []string{"next"}, []string{reaper.Pointed}},
		{"one past its time ends", &world{request: request{events: []time.Duration{timeLimit + 2*every + 1, time.Minute}, age: time.Hour}},
			[]string{"pointer", timedOut}, []string{reaper.TimedOut}},
		{"a request that waited long and began late continues", &world{request: request{events: []time.Duration{timeLimit, time.Minute}, age: time.Hour}},
			[]string{"pointer"}, []string{reaper.Pointed}},
		{"an aborted one that has not begun ends", &world{request: request{abort: time.Second, age: time.Hour}},
			[]string{"pointer", "end: "}, []string{reaper.Aborted}},
		{"an aborted request that its runner may still end continues", &world{request: request{events: []time.Duration{time.Minute}, abort: 30 * time.Second, age: time.Minute}},
			[]string{"pointer"}, []string{reaper.Pointed}},
		{"an aborted one without a runner ends", &world{request: request{events: []time.Duration{time.Minute}, abort: 31 * time.Second, age: time.Minute}},
			[]string{"pointer", "end: "}, []string{reaper.Aborted}},
		{"one that another process claims is left to it", &world{request: request{abort: time.Second}, fenced: true}, []string{"pointer"}, nil},
		{"an error of the broker is counted", &world{readErr: errors.New("no leader")}, nil, []string{reaper.Failed}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				// The pause before a sweep is between half of the time and all of it and a half: there are one or two sweeps.
				did, counted := test.world.run(t, every*3/2, func() {})
				matches := func(sweeps int) bool {
					return slices.EqualFunc(did, slices.Repeat(test.did, sweeps), strings.HasPrefix) &&
						slices.Equal(counted, slices.Repeat(test.counted, sweeps))
				}
				if !matches(1) && !matches(2) {
					t.Errorf("got %q and counts of %q, want %q and %q in each sweep", did, counted, test.did, test.counted)
				}
			})
		})
	}
}

// TestAnAbortIsHandledBeforeTheNextSweep sends the abort of a request, and looks at what has happened two seconds later.
func TestAnAbortIsHandledBeforeTheNextSweep(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		world *world
		did   []string
	}{
		{"a request that has not begun ends", &world{}, []string{"pointer", "end: "}},
		{"a request that has begun is its runner's", &world{request: request{events: []time.Duration{time.Second}}}, nil},
		{"a request whose record has expired is left alone", &world{request: request{expired: true}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				did, _ := test.world.run(t, 2*time.Second, func() { test.world.next <- record.Abort{RequestID: "req_1"} })
				if !slices.EqualFunc(did, test.did, strings.HasPrefix) {
					t.Errorf("got %q, want %q", did, test.did)
				}
			})
		})
	}
}
