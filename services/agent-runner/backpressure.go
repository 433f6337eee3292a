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
	// fullAt is the share of the stream of events from which on agents say no more. Gateways take no new requests long
	// before; what is left is for the ends of those that run, which a full stream would refuse.
	fullAt = 0.95
	// roomEvery is the time between two looks at the stream.
	roomEvery = time.Second
)

// room says whether the stream of events has room for what agents say. The zero value says yes. It is safe for
// concurrent use.
type room struct{ full atomic.Bool }

// watch reads the stream's usage until ctx is done. While the bus does not answer, the last value applies.
func (r *room) watch(ctx context.Context, filled func(context.Context) (float64, error), log *slog.Logger) {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for {
		share, err := filled(ctx)
		if err == nil && r.full.Swap(share >= fullAt) != (share >= fullAt) {
			log.WarnContext(ctx, "the stream of events is full, or has room again", "full", share, "stopping", share >= fullAt)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check is why an agent must say no more, nil while there is room.
func (r *room) check() error {
	if !r.full.Load() {
		return nil
	}
	return apierr.New(apierr.Unavailable, "the message bus is full, and the agent had to stop; try again later")
}

// within is b, which stops when the room ends.
func (r *room) within(b backend.Backend) backend.Backend {
	return backend.Around(b, func(send backend.Send) backend.Send { return roomy{room: r, send: send}.Send })
}

type roomy struct {
	room *room
	send backend.Send
}

// Send is a [backend.Send].
func (b roomy) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if err := b.room.check(); err != nil {
		return backend.Outcome{}, err
	}
	var stopped error
	outcome, err := b.send(ctx, turn, func(c backend.Chunk) error {
		if stopped = b.room.check(); stopped != nil {
			return stopped
		}
		return emit(c)
	})
	if stopped != nil {
		return outcome, stopped
	}
	return outcome, err
}
