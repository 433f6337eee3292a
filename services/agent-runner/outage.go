package agentrunner

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/loop"
)

// The pauses between two attempts at what a dependency does not answer: they double up to the longest.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// errLasting says that something cannot be had any more: another attempt would fail like this one.
var errLasting = errors.New("it is no longer stored, or cannot be read")

// outage reports whether err says that a dependency does not answer now. Everything else concerns the request itself, and
// another attempt would fail like this one.
func outage(err error) bool {
	if f, ok := errors.AsType[*apierr.Error](err); ok {
		return f.Code == apierr.Unavailable || errors.Is(err, hubapi.ErrSilent)
	}
	for _, lasting := range []error{errLasting, bus.ErrNotFound, bus.ErrForgotten, bus.ErrDamaged, bus.ErrTooLarge} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	return err != nil
}

// persist retries an operation that a request cannot continue without, until it succeeds, or fails for another reason
// than an outage. The request stays claimed meanwhile, so that an outage costs it no restarts. persist returns ctx's
// cause when ctx is done, and [loop.ErrHandOver] if the runner must hand over its requests.
func (c *claim) persist(ctx context.Context, what string, try func(context.Context) error) error {
	log := c.runner.deps.Log
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := try(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !outage(err) {
			return err
		}
		log.WarnContext(ctx, "a request waits for a dependency", "request", c.log.RequestID, "for", what, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.leave:
			timer.Stop()
			return loop.ErrHandOver
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// inTime returns a context that ends, with the error that the request then ends with, when the request's time is over.
func (c *claim) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := requests{c.runner}.Time(c.accepted.AgentID)
	rest := limit
	if len(c.own) > 0 {
		rest -= max(0, c.runner.deps.Bus.Now().Sub(c.own[0].Time))
	}
	late := apierr.New(apierr.StreamTimeout, "agent %s could not begin within %s; try again", c.accepted.AgentID, limit)
	return context.WithTimeoutCause(ctx, rest, late)
}
