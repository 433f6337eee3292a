package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Handle does the work of a message. Its context carries the trace of the sender and outlives the context of the queue: the
// handler decides how long it continues when the process is about to end. While it runs, the message is not delivered to
// other processes.
//
// nil acknowledges the message. After ErrFenced or [ErrLeave] the message stays unacknowledged: another process settles it.
// After [ErrHandOver] it is delivered again at once, after a [RetryError] as that says, and after any other error after a
// pause. Handle is called concurrently.
type Handle[T any] func(ctx context.Context, job T) error

// AnyMessage makes a handler of deliveries of h, which needs the job alone.
func (h Handle[T]) AnyMessage(ctx context.Context, job T, _ jetstream.Msg) error { return h(ctx, job) }

// HandleMessage is a [Handle] that is also given the message, to read and not to settle.
type HandleMessage[T any] func(ctx context.Context, job T, msg jetstream.Msg) error

var (
	// ErrLeave makes a queue leave a message unacknowledged.
	ErrLeave = errors.New("left to another process")
	// ErrHandOver makes a queue deliver a message to another process at once.
	ErrHandOver = errors.New("handed over")
)

// RetryError makes a queue deliver a message again after a time that its handler chooses.
type RetryError struct {
	After time.Duration
	Err   error // why
}

// Error implements error.
func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Err }

const (
	// fetchWait bounds one wait for a message, and so how long the end of a queue's work may take.
	fetchWait = time.Second
	// Redelivery is how long a message waits after its handler has failed.
	Redelivery = 2 * time.Second
)

// Work fetches one message for each free slot, since a message fetched ahead would age in a buffer, and calls handle for it.
func Work[T any](ctx context.Context, b *Conn, stream, consumer string, slots int, handle HandleMessage[T]) error {
	queue, err := b.Consumer(ctx, stream, consumer)
	if ctx.Err() != nil {
		return nil // stopped before the first message
	}
	if err != nil {
		return err
	}
	beat := queue.CachedInfo().Config.AckWait / 4
	free := make(chan struct{}, slots)
	var handlers sync.WaitGroup
	defer handlers.Wait()
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return nil
		}
		if b.MayPull() != nil {
			<-free
			_ = Pause(ctx, RetryPause) // the next round sees that ctx is done
			continue
		}
		msg, err := queue.Next(jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			<-free
			if !errors.Is(err, nats.ErrTimeout) && Pause(ctx, RetryPause) != nil {
				return nil
			}
			continue
		}
		if ctx.Err() != nil {
			_ = msg.Nak() // if that fails too, the message comes back by itself
			return nil
		}
		handlers.Go(func() {
			defer func() { <-free }()
			b.Observer.Delivered(msg)
			Settle(msg, Serve(context.WithoutCancel(ctx), msg, beat, handle))
		})
	}
}

// Serve decodes a message and calls handle. Meanwhile it reports to the broker at every beat that the message is being
// processed.
func Serve[T any](ctx context.Context, msg jetstream.Msg, beat time.Duration, handle HandleMessage[T]) error {
	var job T
	if err := json.Unmarshal(msg.Data(), &job); err != nil {
		// No other process could decode it either.
		slog.ErrorContext(ctx, "dropped an unreadable message", "subject", msg.Subject(), "error", err)
		return nil
	}
	alive, cancel := context.WithCancel(ctx)
	var heart sync.WaitGroup
	heart.Go(func() { KeepAlive(alive, beat, msg) })
	defer heart.Wait()
	defer cancel()
	return handle(Extract(ctx, msg.Headers()), job, msg)
}

// Settle acknowledges a message, or has it delivered again, as the error of its handler requires.
func Settle(msg jetstream.Msg, err error) {
	var retry *RetryError
	switch {
	case err == nil:
		err = msg.Ack()
	case errors.Is(err, ErrFenced), errors.Is(err, ErrLeave):
		return
	case errors.Is(err, ErrHandOver):
		err = msg.Nak()
	case errors.As(err, &retry):
		err = msg.NakWithDelay(retry.After)
	default:
		slog.Warn("work failed and will be tried again", "subject", msg.Subject(), "error", err)
		err = msg.NakWithDelay(Redelivery)
	}
	if err != nil {
		slog.Warn("could not settle a message; it comes back", "subject", msg.Subject(), "error", err)
	}
}
