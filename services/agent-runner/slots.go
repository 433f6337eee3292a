package agentrunner

import (
	"context"
	"sync"
)

// waitsPerSlot limits the waiting agent calls, together with the requests in their lent slots.
const waitsPerSlot = 4

// slots lends the slot of a request that waits for a child request to another request. Otherwise waiting requests could
// occupy all slots, and their children could not run.
type slots struct {
	waiting chan struct{}
	lent    chan context.Context // each is done when its slot is reclaimed
	closed  chan struct{}        // closed when no more slots are lent
}

func newSlots(n int) *slots {
	return &slots{
		waiting: make(chan struct{}, n*waitsPerSlot), lent: make(chan context.Context), closed: make(chan struct{}),
	}
}

// lendSlot lends the slot of a request until back is called. It reports false if too many requests wait, or if work in
// reclaimed slots has not ended.
func (s *slots) lendSlot(ctx context.Context) (back func(), ok bool) {
	select {
	case s.waiting <- struct{}{}:
	default:
		return nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	select {
	case s.lent <- ctx: // fill releases waiting
		return cancel, true
	case <-s.closed:
		return func() {
			cancel()
			<-s.waiting
		}, true
	}
}

// fill runs take for each lent slot until ctx is done. Work already started when a slot is reclaimed keeps running;
// fill waits for it.
func (s *slots) fill(ctx context.Context, take func(context.Context)) {
	var takers sync.WaitGroup
	defer takers.Wait()
	defer close(s.closed)
	for {
		select {
		case wanted := <-s.lent:
			takers.Go(func() {
				open, cancel := context.WithCancel(ctx)
				defer cancel()
				defer context.AfterFunc(wanted, cancel)()
				take(open)
				<-open.Done() // also if take ended early: the slot stays lent
				<-s.waiting
			})
		case <-ctx.Done():
			return
		}
	}
}
