package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/nats-io/nats.go/jetstream"
)

// Fullness returns how full the fullest of what holds our streams is, from 0 to 1: each stream by bytes, the work queues by
// messages too, the object store, and the JetStream account. It is 1 for a while after the broker refused a record for
// lack of room, whichever limit that was, the disk included. A stream without a limit counts for nothing. What is full
// refuses the end of a request as it refuses a new one, so a gateway stops to accept requests early.
func (b *Bus) Fullness(ctx context.Context) (float64, error) {
	if b.conn.Room.Refused() {
		return 1, nil
	}
	fullest := b.accountFullness(ctx)
	objects, err := b.look(ctx, "OBJ_"+b.conn.ObjectsBucket())
	if err != nil {
		return 0, err
	}
	fullest = max(fullest, share(objects.State.Bytes, objects.Config.MaxBytes))
	for _, c := range b.streams(Storage{}) {
		info, err := b.look(ctx, c.Name)
		if err != nil {
			return 0, err
		}
		fullest = max(fullest,
			share(info.State.Bytes, info.Config.MaxBytes), share(info.State.Msgs, info.Config.MaxMsgs))
	}
	return fullest, nil
}

// accountFullness is that of the JetStream account: of each tier that has a limit. An account that may not be looked at
// counts for nothing, and is looked at again a minute later.
func (b *Bus) accountFullness(ctx context.Context) float64 {
	if !b.conn.Room.MayAsk() {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	account, err := b.conn.JetStream.AccountInfo(ctx)
	if err != nil {
		b.conn.Room.AskLater()
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

// EventsFullness tells how full the EVENTS stream is, from 0 to 1; 0 where it has no limit.
func (b *Bus) EventsFullness(ctx context.Context) (float64, error) {
	info, err := b.look(ctx, b.conn.EventsStream())
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

func (b *Bus) look(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, broker.AnswerWait)
	defer cancel()
	return b.conn.StreamInfo(ctx, stream)
}

// watchEvery is the time between two looks of Watch; lostAfter is how many of them must miss the same thing: a cluster
// that has just elected a leader may not know of it yet.
const (
	watchEvery = 5 * time.Second
	lostAfter  = 2
)

// Watch returns when the EVENTS stream is no longer the one that Provision or Verify has seen: it was lost, made anew or
// restored, or history's place in it is gone. The error says which. What this process knows of the stream is then
// worthless, and it is best started again. Without an answer from the broker nothing is known, and Watch goes on; it
// returns nil when ctx is done.
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

// errLost says that the broker answers, and that what it should have is not there.
var errLost = errors.New("not what it was when this process started")

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
