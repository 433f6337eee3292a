package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

// The waits before another attempt: the first, and the longest that no server has asked for.
const (
	shortWait = 250 * time.Millisecond
	longWait  = 10 * time.Second
	maxAsked  = time.Minute // the longest that a server may ask for
)

// backoff waits longer after each failure in a row, and never in step with other clients.
type backoff struct {
	short     time.Duration // about the first wait
	failures  int
	suggested time.Duration // by the stream ("retry:"); 0 = nothing
}

func (b *backoff) reset() { b.failures = 0 }

// pause waits before the next attempt. It reports false when there have been enough, or ctx is done.
func (b *backoff) pause(ctx context.Context, failed error, attempts int) bool {
	b.failures++
	if b.failures >= attempts {
		return false
	}
	timer := time.NewTimer(b.delay(failed))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// delay is what the server asked for and up to half as much again; or else about twice the delay before, at random.
func (b *backoff) delay(failed error) time.Duration {
	asked := b.suggested
	if f, ok := errors.AsType[*apierr.Error](failed); ok && f.RetryAfter > 0 {
		asked = f.RetryAfter
	}
	own := min(b.short<<min(b.failures-1, 10), longWait)
	if asked > own {
		asked = min(asked, maxAsked)
		return asked + rand.N(asked/2+1) //nolint:gosec // nothing secret
	}
	return own/2 + rand.N(own/2+1) //nolint:gosec // nothing secret
}
