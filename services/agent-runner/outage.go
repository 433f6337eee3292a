package agentrunner

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/telemetry"
)

// The pauses between two attempts while a dependency does not answer. They double up to the longest.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// errPermanent marks data that is lost: another attempt would fail in the same way.
var errPermanent = errors.New("it is no longer stored, or cannot be read")

// isOutage reports whether err means that a dependency does not answer now. All other errors concern the request itself,
// and another attempt would fail in the same way.
func isOutage(err error) bool {
	if f, ok := errors.AsType[*apierr.Error](err); ok {
		return f.Code == apierr.Unavailable || errors.Is(err, hubapi.ErrSilent)
	}
	for _, lasting := range []error{errPermanent, bus.ErrNotFound, bus.ErrExpired, bus.ErrDamaged, bus.ErrTooLarge} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	return err != nil
}

// retry retries an operation that a request cannot continue without, until it succeeds, or fails for another reason
// than an outage. The request stays claimed meanwhile, so that an outage costs it no restarts. persist returns ctx's
// cause when ctx is done, and [loop.ErrHandOver] if the runner must hand over its requests.
func (c *claim) retry(ctx context.Context, what string, try func(context.Context) error) error {
	log := c.runner.deps.Log
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := try(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !isOutage(err) {
			return err
		}
		log.WarnContext(ctx, "a request waits for a dependency", telemetry.LogRequest, c.log.RequestID, "for", what, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.handOver:
			timer.Stop()
			return loop.ErrHandOver
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// withTimeLimit returns a context that ends, with the error that the request then ends with, when the request's time is over.
func (c *claim) withTimeLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := requests{c.runner}.Time(c.accepted.AgentID)
	rest := limit
	if len(c.events) > 0 {
		rest -= max(0, c.runner.deps.Bus.Now().Sub(c.events[0].Time))
	}
	late := apierr.New(apierr.StreamTimeout, "agent %s could not begin within %s; try again", c.accepted.AgentID, limit)
	return context.WithTimeoutCause(ctx, rest, late)
}
