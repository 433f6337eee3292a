package bus_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/record"
)

// pool runs pointers on a number of slots, each until it is released.
type pool struct {
	t       *testing.T
	taken   chan record.Start
	release chan struct{}
}

func newPool(t *testing.T, b *bus.Bus, slots int) *pool {
	t.Helper()
	p := &pool{t: t, taken: make(chan record.Start), release: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var queue sync.WaitGroup
	queue.Go(func() {
		err := b.ConsumeRequests(ctx, slots, func(_ context.Context, s record.Start) error {
			select {
			case p.taken <- s:
			case <-ctx.Done():
				return bus.ErrLeave
			}
			select {
			case <-p.release:
				return nil
			case <-ctx.Done():
				return bus.ErrLeave
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		queue.Wait()
	})
	return p
}

// next waits until a slot has taken a pointer.
func (p *pool) next() record.Start {
	p.t.Helper()
	select {
	case s := <-p.taken:
		return s
	case <-time.After(time.Minute):
		p.t.Fatal("no slot takes a pointer")
		return record.Start{}
	}
}

// free releases one slot and returns what is taken next.
func (p *pool) free() record.Start {
	p.t.Helper()
	p.release <- struct{}{}
	return p.next()
}

func startAll(t *testing.T, b *bus.Bus, tenant string, count int) {
	t.Helper()
	var senders sync.WaitGroup
	for sender := range 8 {
		senders.Go(func() {
			for i := sender; i < count; i += 8 {
				if err := b.Start(t.Context(), pointerOf(tenant, i), 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
}

func pointerOf(tenant string, i int) record.Accepted {
	return record.Accepted{Tenant: tenant, AgentID: fmt.Sprint("agent", i%2), RequestID: fmt.Sprint(tenant, "_", i), ThreadID: "thr"}
}

// TestAThousandRunsOfATenantDelayAnotherByOneRelease counts in slots that are released. Without the thousand the other
// tenant's run takes the first slot that is free; with them the second at the latest.
func TestAThousandRunsOfATenantDelayAnotherByOneRelease(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	const runs, rounds = 1000, 20
	p := newPool(t, b, 2)
	startAll(t, b, "a", runs)
	ended := map[string]int{}
	for range 2 {
		ended[p.next().RequestID]++
	}
	for round := range rounds {
		if err := b.Start(t.Context(), pointerOf("b", round), 0); err != nil {
			t.Fatal(err)
		}
		for releases := 1; ; releases++ {
			s := p.free()
			ended[s.RequestID]++
			if s.Tenant == "b" {
				break
			}
			if releases == 2 {
				t.Fatalf("round %d: the other tenant waits for more than two releases", round)
			}
		}
	}
	for range runs + rounds - len(ended) {
		ended[p.free().RequestID]++
	}
	for range 2 {
		p.release <- struct{}{}
	}
	for requestID, times := range ended {
		if times != 1 {
			t.Errorf("%s ran %d times", requestID, times)
		}
	}
	eventuallyOpen(t, b, "a", 0)
	eventuallyOpen(t, b, "b", 0)
}

// TestTenantsWithABacklogTakeTurns shows that none of them starves.
func TestTenantsWithABacklogTakeTurns(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for _, tenant := range []string{"a", "b", "c"} {
		startAll(t, b, tenant, 40)
	}
	p := newPool(t, b, 2)
	p.next()
	p.next()
	served := map[string]int{}
	for range 60 {
		served[p.free().Tenant]++
	}
	for _, tenant := range []string{"a", "b", "c"} {
		if served[tenant] < 15 {
			t.Errorf("of 60 slots tenant %s got %d: %v", tenant, served[tenant], served)
		}
	}
}

func eventuallyOpen(t *testing.T, b *bus.Bus, tenant string, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got, err := b.OpenRequests(t.Context(), tenant)
		if err == nil && got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests of %s are open, %v; want %d", got, tenant, err, want)
		}
	}
}

// TestSendersThatRacePutOnePointerIntoTheQueue uses a connection for each sender.
func TestSendersThatRacePutOnePointerIntoTheQueue(t *testing.T) {
	t.Parallel()
	t.Run("one replica", func(t *testing.T) {
		t.Parallel()
		s := bustest.NewServer(t)
		race(t, s.Connect(t, "one"), s.Connect(t, "two"), s.Connect(t, "three"))
	})
	t.Run("three replicas", func(t *testing.T) {
		t.Parallel()
		b := bustest.NewCluster(t)
		race(t, b, b, b)
	})
}

func race(t *testing.T, buses ...*bus.Bus) {
	t.Helper()
	const each = 30
	var senders sync.WaitGroup
	for n, b := range buses {
		for i := range each {
			senders.Go(func() {
				if err := b.Start(t.Context(), pointerOf("a", n*each+i), 0); err != nil {
					t.Error(err)
				}
			})
		}
	}
	senders.Wait()
	eventuallyOpen(t, buses[0], "a", len(buses)*each)
	if queued, err := buses[0].Queued(t.Context(), "a"); err != nil || queued != 1 {
		t.Errorf("%d pointers of one tenant are in the queue, %v; want 1", queued, err)
	}
	if waiting, err := buses[0].QueueDepth(t.Context()); err != nil || waiting != int64(len(buses)*each) {
		t.Errorf("%d requests wait, %v; want %d", waiting, err, len(buses)*each)
	}
	p := newPool(t, buses[0], 4)
	seen := map[string]bool{p.next().RequestID: true}
	for len(seen) < 4 {
		seen[p.next().RequestID] = true
	}
	for len(seen) < len(buses)*each {
		s := p.free()
		if seen[s.RequestID] {
			t.Fatalf("%s was taken twice", s.RequestID)
		}
		seen[s.RequestID] = true
	}
}

// TestBacklogAdvancesAfterRunnerCrash takes a pointer and does no more, as a process that is killed.
func TestBacklogAdvancesAfterRunnerCrash(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	startAll(t, b, "a", 3)
	killed, err := b.TakeAndDie(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(t, b, 3)
	seen := map[string]bool{}
	for range 3 {
		seen[p.next().RequestID] = true
	}
	if len(seen) != 3 || !seen[killed.RequestID] {
		t.Errorf("these were taken after the death of the runner of %s: %v", killed.RequestID, seen)
	}
}

// TestEnsurePointerAdvancesABacklogThatNothingElseMoves leaves a pointer in the backlog, as a sender does that is killed
// after it wrote it, while runners have taken all before it.
func TestEnsurePointerAdvancesABacklogThatNothingElseMoves(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	a := pointerOf("a", 0)
	if err := b.ParkAndDie(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if pointed, err := b.HasPointer(t.Context(), a); err != nil || !pointed {
		t.Fatalf("pointed is %t, %v", pointed, err)
	}
	if sent, err := b.EnsurePointer(t.Context(), a, 0); err != nil || sent {
		t.Fatalf("sent is %t, %v: the pointer was there", sent, err)
	}
	if queued, err := b.Queued(t.Context(), "a"); err != nil || queued != 1 {
		t.Fatalf("%d pointers are in the queue, %v; want 1", queued, err)
	}
	eventuallyOpen(t, b, "a", 1)
}

// TestTheReapersLookMovesWhatASenderHasLeft repairs the same without a process that knows the request.
func TestTheReapersLookMovesWhatASenderHasLeft(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for _, tenant := range []string{"a", "b"} {
		for i := range 2 {
			if err := b.ParkAndDie(t.Context(), pointerOf(tenant, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if next, err := b.AdvanceBacklog(t.Context(), 0); err != nil || next != 0 {
		t.Fatalf("the next page begins at %d, %v", next, err)
	}
	for _, tenant := range []string{"a", "b"} {
		if queued, err := b.Queued(t.Context(), tenant); err != nil || queued != 1 {
			t.Errorf("%d pointers of %s are in the queue, %v; want 1", queued, tenant, err)
		}
	}
}

// TestACopyInTheBacklogIsNotRunAgain leaves a pointer in the backlog although the queue has it, as a process does that is
// killed between the two steps of a move.
func TestACopyInTheBacklogIsNotRunAgain(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	first, second := pointerOf("a", 0), pointerOf("a", 1)
	if err := b.Start(t.Context(), first, 0); err != nil {
		t.Fatal(err)
	}
	if err := b.ParkAndDie(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context(), second, 0); err != nil {
		t.Fatal(err)
	}
	p := newPool(t, b, 1)
	if s := p.next(); s.RequestID != first.RequestID {
		t.Fatalf("%s is taken first", s.RequestID)
	}
	if s := p.free(); s.RequestID != second.RequestID {
		t.Fatalf("%s is taken second", s.RequestID)
	}
	if err := b.ParkAndDie(t.Context(), first); err != nil { // it has ended
		t.Fatal(err)
	}
	third := pointerOf("a", 2)
	if err := b.Start(t.Context(), third, 0); err != nil {
		t.Fatal(err)
	}
	if s := p.free(); s.RequestID != third.RequestID {
		t.Fatalf("%s is taken third", s.RequestID)
	}
	p.release <- struct{}{}
	eventuallyOpen(t, b, "a", 0)
}
