package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// tail reads what a stream holds on a subject, which may be a wildcard, and what comes, in order. What comes live only
// says that there is something: storage is read, and no consumer stands on the broker. It is for one goroutine.
type tail struct {
	bus      *Bus
	stream   string
	subject  string
	stop     func()
	messages chan *nats.Msg // has a place for one: that something came
	after    uint64         // sequence of the newest message that was read
	known    uint64         // sequence of the newest message that there is
	ahead    []stored
	stale    bool
	looks    looks
}

// tail starts to read behind the message with sequence after. What is stored on subject is republished on live. Close it.
func (b *Bus) tail(ctx context.Context, stream, subject, live string, after uint64) (*tail, error) {
	messages := make(chan *nats.Msg, 1)
	stop, err := b.subscribe(live, messages)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	if err := b.flush(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	newest, err := b.last(ctx, stream, subject)
	if err != nil && !errors.Is(err, ErrNotFound) {
		stop()
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	return &tail{
		bus: b, stream: stream, subject: subject, stop: stop, messages: messages, after: after, stale: true,
		known: newest.Sequence, // a replica may not have it yet
		looks: newLooks(b.link),
	}, nil
}

// next returns the next message; ErrIdle when there is none and none came for wait; ctx's error when that is done. While
// storage cannot be read it tries again for wait, and then returns why.
func (t *tail) next(ctx context.Context, wait time.Duration) (stored, error) {
	deadline := time.Now().Add(wait)
	for {
		if len(t.ahead) > 0 {
			next := t.ahead[0]
			t.ahead[0] = stored{} // or the array would keep its data
			t.ahead = t.ahead[1:]
			return next, nil
		}
		if t.stale {
			err := t.fill(ctx)
			if err != nil && (!time.Now().Before(deadline) || pause(ctx, refill) != nil) {
				return stored{}, err
			}
			continue
		}
		if !time.Now().Before(deadline) {
			return stored{}, ErrIdle
		}
		if t.looks.due() {
			t.stale = true // the one live message may have been lost
			continue
		}
		if err := t.wait(ctx, deadline); err != nil {
			return stored{}, err
		}
	}
}

// wait returns when a message comes, when the connection is back after a loss, when it is time to look into storage, or at
// the deadline.
func (t *tail) wait(ctx context.Context, deadline time.Time) error {
	timer := time.NewTimer(min(time.Until(deadline), time.Until(t.looks.at)))
	defer timer.Stop()
	select {
	case msg := <-t.messages:
		t.stale = true
		t.known, _ = strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64) // 0 would only mean to look less long
		t.looks.soon()
	case <-t.looks.back:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (t *tail) fill(ctx context.Context) error {
	messages, more, err := t.bus.page(ctx, t.stream, t.subject, t.after+1, fullPage())
	if err != nil {
		return err
	}
	if len(messages) > 0 {
		t.ahead = messages
		t.after = messages[len(messages)-1].Sequence
	}
	t.stale = more || t.after < t.known
	if t.stale && len(messages) == 0 {
		return pause(ctx, replicaPause)
	}
	return nil
}

// close ends the subscription. It may be called twice.
func (t *tail) close() { t.stop() }
