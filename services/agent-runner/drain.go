package agentrunner

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errDraining is the cause with which requests are cancelled that do not reach the end of a step in time on shutdown.
var errDraining = errors.New("the runner is shutting down")

// flushTime is how long cancelled requests may take to store their state.
const flushTime = 4 * time.Second

// drain is the shutdown of a runner. The runner first takes no new requests, and running ones may end. Then the contexts
// below end one after the other.
type drain struct {
	handOver  chan struct{}   // closed when requests are handed over at the end of a step
	cancelled context.Context //nolint:containedctx // done when they are cancelled and handed over at once
	closed    context.Context //nolint:containedctx // done when no more writes are allowed
}

// newDrain returns the drain of a runner that stops when ctx is done. Call stop when it has stopped.
func newDrain(ctx context.Context, handOver, grace time.Duration) (d *drain, stop func()) {
	whole := context.WithoutCancel(ctx)
	cut, cancelCut := context.WithCancel(whole)
	dead, cancelDead := context.WithCancel(whole)
	d = &drain{handOver: make(chan struct{}), cancelled: cut, closed: dead}
	stopped := make(chan struct{})
	handOver = min(handOver, grace)
	var clock sync.WaitGroup
	clock.Go(func() { // ends with stop, at the latest
		select {
		case <-ctx.Done():
		case <-stopped:
			return
		}
		for _, step := range []struct {
			after time.Duration
			do    func()
		}{
			{handOver, func() { close(d.handOver) }}, {grace - handOver, cancelCut}, {flushTime, cancelDead},
		} {
			timer := time.NewTimer(step.after)
			select {
			case <-timer.C:
				step.do()
			case <-stopped:
				timer.Stop()
				return
			}
		}
	})
	return d, func() {
		close(stopped)
		clock.Wait()
		cancelCut()
		cancelDead()
	}
}
