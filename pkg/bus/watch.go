package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/nats-io/nats.go/jetstream"
)

// Fullness returns how full the fullest store is, from 0 to 1: each stream by bytes, the work queues also by messages, the
// object store, and the JetStream account. The queue of deliveries does not count. It is 1 for a while after the broker refused
// a record for lack of space, whatever limit caused it, the disk included. A stream without a limit is ignored. A full store refuses the end of a request as it
// refuses a new one, so a gateway stops accepting requests early.
func (b *Bus) Fullness(ctx context.Context) (float64, error) {
	if b.conn.Space.Refused() {
		return 1, nil
	}
	fullest := b.accountFullness(ctx)
	objects, err := b.streamInfo(ctx, "OBJ_"+b.conn.ObjectsBucket())
	if err != nil {
		return 0, err
	}
	fullest = max(fullest, share(objects.State.Bytes, objects.Config.MaxBytes))
	for _, c := range b.streams(Storage{}) {
		if c.Name == b.conn.DeliveriesStream() {
			continue // requests do not wait for receivers of webhooks
		}
		info, err := b.streamInfo(ctx, c.Name)
		if err != nil {
			return 0, err
		}
		fullest = max(fullest,
			share(info.State.Bytes, info.Config.MaxBytes), share(info.State.Msgs, info.Config.MaxMsgs))
	}
	return fullest, nil
}

// accountFullness returns the fullness of the JetStream account: of each tier that has a limit. An account that may not be
// read is ignored, and read again a minute later.
func (b *Bus) accountFullness(ctx context.Context) float64 {
	if !b.conn.Space.MayAsk() {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	account, err := b.conn.JetStream.AccountInfo(ctx)
	if err != nil {
		b.conn.Space.AskLater()
		return 0
	}
	fullest := tierFullness(account.Tier)
	for _, tier := range account.Tiers {
		fullest = max(fullest, tierFullness(tier))
	}
	return fullest
}

func tierFullness(t jetstream.Tier) float64 {
	return max(share(t.Store, t.Limits.MaxStore), share(t.Memory, t.Limits.MaxMemory))
}

// EventsFullness returns how full the EVENTS stream is, from 0 to 1; 0 if the stream has no limit.
func (b *Bus) EventsFullness(ctx context.Context) (float64, error) {
	info, err := b.streamInfo(ctx, b.conn.EventsStream())
	if err != nil {
		return 0, err
	}
	return share(info.State.Bytes, info.Config.MaxBytes), nil
}

func share(have uint64, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(have) / float64(limit)
}

func (b *Bus) streamInfo(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, broker.AnswerWait)
	defer cancel()
	return b.conn.StreamInfo(ctx, stream)
}

// watchEvery is the time between two checks of Watch; lostAfter is how many consecutive checks must fail: a cluster that has
// just elected a leader may respond that a stream does not exist.
const (
	watchEvery = 5 * time.Second
	lostAfter  = 2
)

// Watch returns when the EVENTS stream is no longer the one that Provision or Verify has seen: it was lost, created again or
// restored, or the consumer of history is gone. The error says which. The process should then be restarted, because its view
// of the stream is no longer valid. Watch continues while the broker does not respond, and returns nil when ctx is done.
func (b *Bus) Watch(ctx context.Context) error {
	missed := 0
	for broker.Pause(ctx, watchEvery) == nil {
		err := b.unchanged(ctx)
		switch {
		case err == nil:
			missed = 0
		case errors.Is(err, errLost):
			missed++
		}
		if missed >= lostAfter {
			return err
		}
	}
	return nil
}

// errLost says that the broker responds, and that a stream or consumer is gone or is another one.
var errLost = errors.New("lost or replaced since this process started")

func (b *Bus) unchanged(ctx context.Context) error {
	name := b.conn.EventsStream()
	ctx, cancel := context.WithTimeout(ctx, broker.AnswerWait)
	defer cancel()
	stream, err := b.conn.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("stream %s is gone: %w", name, errLost)
	}
	if err != nil {
		return err
	}
	if is, was := incarnationOf(stream.CachedInfo()), b.conn.Incarnation(); is != was {
		return fmt.Errorf("stream %s has incarnation %s, and had %s: %w", name, is, was, errLost)
	}
	_, err = stream.Consumer(ctx, broker.HistoryConsumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("consumer %s of stream %s is gone: %w", broker.HistoryConsumer, name, errLost)
	}
	return err
}
