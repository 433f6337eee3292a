package threadqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/threadqueue"
)

var errBusy = errors.New("as many wait as may")

// admission lets a number of requests wait on a thread.
type admission struct {
	bus   *bus.Bus
	limit int
}

func (m admission) Thread(ctx context.Context, a record.Accepted) (record.ThreadRecord, error) {
	newest, err := m.bus.Thread(ctx, a.Tenant, a.ThreadID)
	if errors.Is(err, record.ErrNotFound) {
		return record.ThreadRecord{}, nil
	}
	return newest, err
}

func (m admission) Admit(
	_ context.Context, newest record.ThreadRecord, entries []threadqueue.Entry, _ record.Accepted,
) (behind int, err error) {
	switch {
	case len(entries) == 0:
		return 0, nil
	case len(entries) > m.limit:
		return 0, errBusy
	}
	return threadqueue.Behind(newest, entries), nil
}

func (m admission) Record(ctx context.Context, a record.Accepted) (stored record.Accepted, again bool, err error) {
	stored, first, err := m.bus.Accept(ctx, a)
	return stored, !first, err
}

func (m admission) Recorded(ctx context.Context, a record.Accepted) (stored record.Accepted, found bool, err error) {
	stored, err = m.bus.Accepted(ctx, record.LogID{Tenant: a.Tenant, RequestID: a.RequestID})
	if errors.Is(err, record.ErrNotFound) {
		return a, false, nil
	}
	return stored, err == nil, err
}

func request(n int) record.Accepted {
	return record.Accepted{Tenant: "t", AgentID: "a", ThreadID: "thr", RequestID: fmt.Sprint("r", n)}
}

// fixture is a queue on a broker.
type fixture struct {
	*testing.T
	bus   *bus.Bus
	queue *threadqueue.Queue
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	b := bustest.New(t)
	return fixture{t, b, threadqueue.New(b, b.Now)}
}

func (f fixture) put(n int) {
	f.Helper()
	if _, _, err := f.queue.Put(f.Context(), admission{f.bus, 10}, request(n), false, 20); err != nil {
		f.Fatal(err)
	}
}

// end claims a request and stores its terminal event.
func (f fixture) end(n int) {
	f.Helper()
	w, _, err := f.bus.Claim(f.Context(), record.LogID{Tenant: "t", RequestID: request(n).RequestID}, "runner", "")
	if err != nil {
		f.Fatal(err)
	}
	defer w.Close()
	if err := w.Emit(event.Done{FinishReason: event.FinishStop}); err != nil {
		f.Fatal(err)
	}
	if err := w.Flush(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// wantPointers fails unless exactly these requests have a pointer.
func (f fixture) wantPointers(want ...int) {
	f.Helper()
	for n := range 10 {
		got, err := f.bus.HasPointer(f.Context(), request(n))
		if err != nil {
			f.Fatal(err)
		}
		if got != slices.Contains(want, n) {
			f.Errorf("request %d: got a pointer %t, want %t", n, got, !got)
		}
	}
}

func TestTheFirstRequestOfAThreadGetsAPointerAndTheOthersWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for n := range 3 {
		f.put(n)
	}
	f.wantPointers(0)
	f.end(0)
	if sent, err := f.queue.Next(t.Context(), "t", "thr", 0); err != nil || !sent {
		t.Fatalf("got sent %t, %v; want the pointer of request 1", sent, err)
	}
	if sent, err := f.queue.Next(t.Context(), "t", "thr", 0); err != nil || sent {
		t.Fatalf("got sent %t, %v; want no second pointer", sent, err)
	}
	f.wantPointers(0, 1)
}

func TestRunningRequestKeepsOthersWaiting(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(0)
	f.put(1)
	w, _, err := f.bus.Claim(t.Context(), record.LogID{Tenant: "t", RequestID: "r0"}, "runner", "")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if sent, err := f.queue.Next(t.Context(), "t", "thr", -1); err != nil || sent {
		t.Fatalf("got sent %t, %v; want none while request 0 runs", sent, err)
	}
	f.wantPointers(0)
}

// TestASenderThatDiedBetweenTwoStepsIsReplaced lets a sender stop after each of its steps; the same request then continues.
func TestASenderThatDiedBetweenTwoStepsIsReplaced(t *testing.T) {
	t.Parallel()
	tests := map[string]func(f fixture, a record.Accepted) error{
		"after the request's record": func(fixture, record.Accepted) error { return nil },
		"after the thread's record": func(f fixture, a record.Accepted) error {
			_, err := f.bus.AdvanceThread(f.Context(), a.Tenant, record.Thread{ThreadID: a.ThreadID, RequestID: a.RequestID}, 0)
			return err
		},
		"after the pointer": func(f fixture, a record.Accepted) error {
			return f.queue.Append(f.Context(), record.ThreadRecord{}, a, 0)
		},
	}
	for name, stop := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			a := request(0)
			if _, _, err := f.bus.Accept(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if err := stop(f, a); err != nil {
				t.Fatal(err)
			}
			if _, _, err := f.queue.Put(t.Context(), admission{f.bus, 10}, a, true, 3); err != nil {
				t.Fatal(err)
			}
			f.wantPointers(0)
			var records int
			for _, err := range f.bus.ThreadRecords(t.Context(), "t", "thr", 0) {
				if err != nil {
					t.Fatal(err)
				}
				records++
			}
			if records != 1 {
				t.Errorf("got %d records of the thread, want 1", records)
			}
		})
	}
}

func TestAMissingPointerIsSentByTheNextRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := request(0)
	if _, _, err := f.bus.Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if _, err := f.bus.AdvanceThread(t.Context(), "t", record.Thread{ThreadID: "thr", RequestID: "r0"}, 0); err != nil {
		t.Fatal(err)
	}
	f.put(1)
	f.wantPointers(0)
}

func TestRequestsThatComeAtOnceGetOneOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const count = 8
	var senders sync.WaitGroup
	for n := range count {
		senders.Go(func() { f.put(n) })
	}
	senders.Wait()
	newest, err := f.bus.Thread(t.Context(), "t", "thr")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := f.queue.Entries(t.Context(), "t", newest)
	if err != nil || len(entries) != count {
		t.Fatalf("got %d entries, %v; want %d", len(entries), err, count)
	}
	for i, entry := range entries {
		if entry.Index != i {
			t.Errorf("got index %d for entry %d", entry.Index, i)
		}
		if pointed, err := f.bus.HasPointer(t.Context(), *entry.Accepted); err != nil || pointed != (i == 0) {
			t.Errorf("entry %d: got a pointer %t, %v", i, pointed, err)
		}
	}
}

func TestARefusedRequestLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(0)
	if _, _, err := f.queue.Put(t.Context(), admission{f.bus, 0}, request(1), false, 3); !errors.Is(err, errBusy) {
		t.Fatalf("got %v, want %v", err, errBusy)
	}
	if _, err := f.bus.Accepted(t.Context(), record.LogID{Tenant: "t", RequestID: "r1"}); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("got %v, want no record", err)
	}
}

// endsBefore ends the running request, and looks for the next one, before the record of another request is stored.
type endsBefore struct {
	*bus.Bus
	f fixture
}

func (l endsBefore) AdvanceThread(
	ctx context.Context, tenant string, next record.Thread, after uint64,
) (record.ThreadRecord, error) {
	l.f.end(0)
	if sent, err := l.f.queue.Next(ctx, tenant, next.ThreadID, 0); err != nil || sent {
		l.f.Errorf("got sent %t, %v; want none: the record is not stored yet", sent, err)
	}
	return l.Bus.AdvanceThread(ctx, tenant, next, after)
}

func TestRequestAcceptedWhilePreviousEndsGetsPointer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(0)
	queue := threadqueue.New(endsBefore{f.bus, f}, f.bus.Now)
	if _, _, err := queue.Put(t.Context(), admission{f.bus, 10}, request(1), false, 1); err != nil {
		t.Fatal(err)
	}
	f.wantPointers(0, 1)
}
