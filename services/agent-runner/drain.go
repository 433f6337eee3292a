package agentrunner

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errDraining is why requests are cut that do not come to the edge of a step in time when the process ends.
var errDraining = errors.New("the runner is shutting down")

// lastWords is how long cancelled requests may take to store their state.
const lastWords = 4 * time.Second

// drain is the stop of a runner. It first takes no new requests, and the running ones may end. The steps below follow.
type drain struct {
	leave chan struct{}   // closed when requests are handed over at the edge of a step
	cut   context.Context //nolint:containedctx // done when they are handed over wherever they stand
	dead  context.Context //nolint:containedctx // done when nothing is written any more
}

// newDrain returns the drain of a runner that stops when ctx is done. Call stop when it has stopped.
func newDrain(ctx context.Context, handOver, grace time.Duration) (d *drain, stop func()) {
	whole := context.WithoutCancel(ctx)
	cut, cancelCut := context.WithCancel(whole)
	dead, cancelDead := context.WithCancel(whole)
	d = &drain{leave: make(chan struct{}), cut: cut, dead: dead}
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
			{handOver, func() { close(d.leave) }}, {grace - handOver, cancelCut}, {lastWords, cancelDead},
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
