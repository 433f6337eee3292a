package agentrunner

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
)

const (
	// stopAt is the share of the events stream from which on backends are stopped. Gateways refuse new requests long
	// before. The rest is reserved for the terminal events of running requests, which a full stream would refuse.
	stopAt = 0.95
	// checkInterval is the time between two reads of the stream's usage.
	checkInterval = time.Second
)

// backpressure stops backends while the events stream is nearly full. Its zero value stops none. It is safe for concurrent
// use.
type backpressure struct{ full atomic.Bool }

// watch reads the stream's usage until ctx is done. While the bus does not answer, the last value applies.
func (r *backpressure) watch(ctx context.Context, fullness func(context.Context) (float64, error), log *slog.Logger) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		share, err := fullness(ctx)
		if full := share >= stopAt; err == nil && r.full.Swap(full) != full {
			if full {
				log.WarnContext(ctx, "the events stream is nearly full: stopping backends", "fullness", share, "limit", stopAt)
			} else {
				log.InfoContext(ctx, "the events stream is below its limit again: accepting output of backends", "fullness", share, "limit", stopAt)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check returns why a backend must stop, or nil.
func (r *backpressure) check() error {
	if !r.full.Load() {
		return nil
	}
	return apierr.New(apierr.Unavailable, "the message bus is full, so the agent was stopped; try again later")
}

// wrap returns b with a check before each chunk.
func (r *backpressure) wrap(b backend.Backend) backend.Backend {
	return backend.Around(b, func(send backend.Send) backend.Send { return limitedBackend{backpressure: r, send: send}.Send })
}

type limitedBackend struct {
	backpressure *backpressure
	send         backend.Send
}

// Send is a [backend.Send].
func (b limitedBackend) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if err := b.backpressure.check(); err != nil {
		return backend.Outcome{}, err
	}
	var stopped error
	outcome, err := b.send(ctx, turn, func(c backend.Chunk) error {
		if stopped = b.backpressure.check(); stopped != nil {
			return stopped
		}
		return emit(c)
	})
	if stopped != nil {
		return outcome, stopped
	}
	return outcome, err
}
