package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Tail reads the stored messages of a stream on a subject, which may be a wildcard, and those that are stored later, in
// order. A live message only signals that storage must be read, and the broker has no consumer for it. It is for one
// goroutine.
type Tail struct {
	bus      *Conn
	stream   string
	subject  string
	stop     func()
	messages chan *nats.Msg // holds one: the signal that a message came
	after    uint64         // sequence of the newest message that was read
	known    uint64         // sequence of the newest message that there is
	ahead    []Message
	Stale    bool
	Checks   Checks
}

// Tail starts to read at the message that follows the one with sequence after. JetStream republishes the messages on subject
// under live. Close it.
func (b *Conn) Tail(ctx context.Context, stream, subject, live string, after uint64) (*Tail, error) {
	messages := make(chan *nats.Msg, 1)
	stop, err := b.Subscribe(live, messages)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	if err := b.Flush(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	newest, err := b.Newest(ctx, stream, subject)
	if err != nil && !errors.Is(err, ErrNotFound) {
		stop()
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	return &Tail{
		bus: b, stream: stream, subject: subject, stop: stop, messages: messages, after: after, Stale: true,
		known:  newest.Sequence, // a replica may not have it yet
		Checks: NewChecks(b.Link),
	}, nil
}

// Next returns the next message. The error is ErrIdle if no message came within wait, and the error of ctx when ctx is done.
// While storage cannot be read, Next retries for wait, and then returns why.
func (t *Tail) Next(ctx context.Context, wait time.Duration) (Message, error) {
	deadline := time.Now().Add(wait)
	for {
		if len(t.ahead) > 0 {
			next := t.ahead[0]
			t.ahead[0] = Message{} // so that the array does not keep its data
			t.ahead = t.ahead[1:]
			return next, nil
		}
		if t.Stale {
			err := t.fill(ctx)
			if err != nil && (!time.Now().Before(deadline) || Pause(ctx, Refill) != nil) {
				return Message{}, err
			}
			continue
		}
		if !time.Now().Before(deadline) {
			return Message{}, ErrIdle
		}
		if t.Checks.Due() {
			t.Stale = true // the one live message may have been lost
			continue
		}
		if err := t.wait(ctx, deadline); err != nil {
			return Message{}, err
		}
	}
}

// wait returns when a message arrives, when the connection is back after a loss, when storage must be checked, or at the
// deadline.
func (t *Tail) wait(ctx context.Context, deadline time.Time) error {
	timer := time.NewTimer(min(time.Until(deadline), time.Until(t.Checks.At)))
	defer timer.Stop()
	select {
	case msg := <-t.messages:
		t.Stale = true
		t.known, _ = strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64) // 0 would only mean to look less long
		t.Checks.Soon()
	case <-t.Checks.Back:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (t *Tail) fill(ctx context.Context) error {
	messages, more, err := t.bus.Page(ctx, t.stream, t.subject, t.after+1, FullPage())
	if err != nil {
		return err
	}
	if len(messages) > 0 {
		t.ahead = messages
		t.after = messages[len(messages)-1].Sequence
	}
	t.Stale = more || t.after < t.known
	if t.Stale && len(messages) == 0 {
		return Pause(ctx, ReplicaPause)
	}
	return nil
}

// Close ends the subscription. It may be called twice.
func (t *Tail) Close() { t.stop() }
