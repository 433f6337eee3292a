package admission

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

const (
	// refuseAt is the share of a stream from which on new requests are refused. The rest is reserved for running
	// requests, whose ends a full stream would refuse.
	refuseAt = 0.8
	// checkInterval is the time between two reads of the streams' usage.
	checkInterval = time.Second
	// retryAfter is the Retry-After of a refusal. Streams empty slowly.
	retryAfter = 10 * time.Second
)

// backpressure refuses new requests while a stream is nearly full. Its zero value refuses none. It is safe for
// concurrent use.
type backpressure struct{ full atomic.Bool }

// watch reads the streams' usage until ctx is done. While the bus does not answer, the last value applies.
func (r *backpressure) watch(ctx context.Context, fullness func(context.Context) (float64, error), log *slog.Logger) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		share, err := fullness(ctx)
		if full := share >= refuseAt; err == nil && r.full.Swap(full) != full {
			if full {
				log.WarnContext(ctx, "a stream is nearly full: refusing new requests", "fullness", share, "limit", refuseAt)
			} else {
				log.InfoContext(ctx, "the streams are below their limit again: accepting new requests", "fullness", share, "limit", refuseAt)
			}
		}
		if err != nil && ctx.Err() == nil {
			log.DebugContext(ctx, "could not read the usage of the streams", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check returns the refusal of a new request, or nil.
func (r *backpressure) check() error {
	if !r.full.Load() {
		return nil
	}
	f := apierr.New(apierr.Unavailable, "the message bus is nearly full and takes no new requests; try again later")
	f.RetryAfter = retryAfter
	return f
}
