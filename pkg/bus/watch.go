package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Fullness tells how full the fullest of our streams is, from 0 to 1: by bytes, and the work queues by messages too. A
// stream without a limit counts for nothing. What is full refuses the end of a request as it refuses a new one, so
// whoever takes requests stops early.
func (b *Bus) Fullness(ctx context.Context) (float64, error) {
	var fullest float64
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

// EventsFullness tells how full the EVENTS stream is, from 0 to 1; 0 where it has no limit.
func (b *Bus) EventsFullness(ctx context.Context) (float64, error) {
	info, err := b.look(ctx, b.eventsStream())
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
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	return b.streamInfo(ctx, stream)
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
	for pause(ctx, watchEvery) == nil {
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
	name := b.eventsStream()
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	stream, err := b.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("stream %s is gone: %w", name, errLost)
	}
	if err != nil {
		return err
	}
	if is, was := incarnationOf(stream.CachedInfo()), b.Incarnation(); is != was {
		return fmt.Errorf("stream %s has incarnation %s, and had %s: %w", name, is, was, errLost)
	}
	_, err = stream.Consumer(ctx, historyConsumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("consumer %s of stream %s is gone: %w", historyConsumer, name, errLost)
	}
	return err
}
