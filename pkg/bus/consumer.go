package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// openPause is the wait before a consumer is looked up again.
const openPause = 200 * time.Millisecond

// consumer looks up a durable consumer, and waits for a broker that does not answer: a cluster may have no leader for a while.
// The error says that the consumer or its stream does not exist, or is that of ctx.
func (b *Bus) consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	waited := false
	for {
		found, err := b.js.Consumer(ctx, stream, name)
		switch {
		case err == nil:
			return found, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, fmt.Errorf("open consumer %s of stream %s: %w", name, stream, err)
		}
		if !waited {
			slog.WarnContext(ctx, "waiting for a consumer of the broker", "stream", stream, "consumer", name, "error", err)
			waited = true
		}
		if err := pause(ctx, openPause); err != nil {
			return nil, err
		}
	}
}
