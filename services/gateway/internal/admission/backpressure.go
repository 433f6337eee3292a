package admission

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

const (
	// fullAt is the share of a stream from which on no new request is taken. What is left is for those that run: a full
	// stream would refuse their ends.
	fullAt = 0.8
	// lookEvery is the time between two looks at the streams.
	lookEvery = time.Second
	// comeBack is when a client that was refused may try again: streams empty slowly.
	comeBack = 10 * time.Second
)

// backpressure says whether the streams have room for new requests. The zero value says yes. It is safe for concurrent use.
type backpressure struct{ full atomic.Bool }

// watch looks at the streams until ctx is done. While the bus does not answer, what it said last stands.
func (r *backpressure) watch(ctx context.Context, fullness func(context.Context) (float64, error), log *slog.Logger) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		share, err := fullness(ctx)
		if err == nil && r.full.Swap(share >= fullAt) != (share >= fullAt) {
			log.WarnContext(ctx, "the streams are filling up, or have room again", "full", share, "refusing", share >= fullAt)
		}
		if err != nil && ctx.Err() == nil {
			log.DebugContext(ctx, "could not look at the streams", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check is the refusal of a new request, nil while there is room.
func (r *backpressure) check() error {
	if !r.full.Load() {
		return nil
	}
	f := apierr.New(apierr.Unavailable, "the message bus is nearly full and takes no new requests; try again later")
	f.RetryAfter = comeBack
	return f
}
