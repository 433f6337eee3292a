package broker

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

// Consumer looks up a durable consumer, and waits for a broker that does not answer: a cluster may have no leader for a while.
// The error says that the consumer or its stream does not exist, or is that of ctx.
func (b *Conn) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	waited := false
	for {
		found, err := b.JetStream.Consumer(ctx, stream, name)
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
		if err := Pause(ctx, openPause); err != nil {
			return nil, err
		}
	}
}

// KeepAlive reports to the broker at every beat that messages are being processed, until ctx is done.
func KeepAlive(ctx context.Context, beat time.Duration, messages ...jetstream.Msg) {
	for Pause(ctx, beat) == nil {
		for _, msg := range messages {
			_ = msg.InProgress() // if it is lost, the message may be delivered to another process, and records decide
		}
	}
}

// MayPull returns ErrDown while the connection is down: a pull that cannot be sent would leak its subscription.
func (b *Conn) MayPull() error {
	if !b.NATS.IsConnected() {
		return ErrDown
	}
	return nil
}

// StreamInfo returns the configuration and the state of a stream.
func (b *Conn) StreamInfo(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	stream, err := b.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("stream %s does not exist: create it, or start one service with NATS_PROVISION=create", name)
	}
	if err != nil {
		return nil, fmt.Errorf("look at stream %s: %w", name, err)
	}
	return stream.CachedInfo(), nil
}

// Stream asks for a stream. The answer of EVENTS also says what time it is: see [Bus.Now].
func (b *Conn) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	asked := time.Now()
	stream, err := b.JetStream.Stream(ctx, name)
	if err == nil && name == b.EventsStream() {
		b.Clock.measure(asked, time.Now(), stream.CachedInfo().TimeStamp)
	}
	return stream, err
}

// Pause waits for d, or returns ctx's error when it is done first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
