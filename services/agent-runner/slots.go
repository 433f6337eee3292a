package agentrunner

import (
	"context"
	"sync"
)

// waitsPerSlot limits the waiting agent calls, together with the requests in their lent slots.
const waitsPerSlot = 4

// slots lends the place of a request that waits for an agent to another request. Otherwise requests that wait could take
// all places, and none would be left for those that they wait for.
type slots struct {
	waiting chan struct{}
	lent    chan context.Context // each is done when its place is wanted back
	closed  chan struct{}        // no place is lent any more
}

func newSlots(n int) *slots {
	return &slots{
		waiting: make(chan struct{}, n*waitsPerSlot), lent: make(chan context.Context), closed: make(chan struct{}),
	}
}

// lend offers the place of a request until back is called. It reports false when too many wait already, or what was begun
// in places that are wanted back has not ended.
func (s *slots) lend(ctx context.Context) (back func(), ok bool) {
	select {
	case s.waiting <- struct{}{}:
	default:
		return nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	select {
	case s.lent <- ctx: // who fills the place frees the room
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
				<-open.Done() // where nothing could be taken, the call waits on
				<-s.waiting
			})
		case <-ctx.Done():
			return
		}
	}
}
