package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/id"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// put writes value as the first record on subject. When somebody was first, it returns their record and false.
func put[T any](ctx context.Context, b *Bus, stream, subject string, value T) (first T, won bool, err error) {
	_, err = swapRecord(ctx, b, stream, subject, value, 0)
	if err == nil {
		return value, true, nil
	}
	if !errors.Is(err, ErrConflict) {
		return first, false, err
	}
	first, _, err = get[T](ctx, b, stream, subject)
	return first, false, err
}

// swapRecord writes value on subject if its newest record has sequence last. ErrConflict otherwise.
func swapRecord(ctx context.Context, b *Bus, stream, subject string, value any, last uint64) (uint64, error) {
	msg, err := newMessage(ctx, subject, value)
	if err != nil {
		return 0, err
	}
	return b.swap(ctx, stream, msg, id.New("rec"), last)
}

// get returns the newest record on subject and its sequence, from the leader. ErrNotFound when there is none.
func get[T any](ctx context.Context, b *Bus, stream, subject string) (value T, sequence uint64, err error) {
	m, err := b.last(ctx, stream, subject)
	if err != nil {
		return value, 0, err
	}
	if err := json.Unmarshal(m.Data, &value); err != nil {
		return value, 0, fmt.Errorf("decode record %s: %w", subject, err)
	}
	return value, m.Sequence, nil
}

// newMessage returns a message of value that carries ctx's trace.
func newMessage(ctx context.Context, subject string, value any) (*nats.Msg, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode record %s: %w", subject, err)
	}
	if len(body) > maxEventBytes {
		return nil, fmt.Errorf("record %s of %d bytes: %w", subject, len(body), ErrTooLarge)
	}
	msg := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: body}
	inject(ctx, msg.Header)
	return msg, nil
}

// await returns the first record on subject, now or when it comes. hear gets the messages that arrive meanwhile on the
// subject besides, if any is named. It ends with ctx.
func await[T any](ctx context.Context, b *Bus, stream, subject, beside string, hear func(*nats.Msg)) (T, error) {
	var value T
	messages := make(chan *nats.Msg, 1) // that the record is there, however often it is said
	if beside != "" {
		messages = make(chan *nats.Msg, 256)
	}
	for _, s := range []string{b.live(subject), beside} {
		if s == "" {
			continue
		}
		stop, err := b.subscribe(s, messages)
		if err != nil {
			return value, fmt.Errorf("wait for %s: %w", subject, err)
		}
		defer stop()
	}
	_ = b.flush(ctx) // fails while the connection is down; the looks below repair what is missed
	looks := newLooks(b.link)
	for {
		value, _, err := get[T](ctx, b, stream, subject)
		if err == nil {
			drain(messages, beside, hear)
			return value, nil
		}
		if !errors.Is(err, ErrNotFound) {
			looks.soon()
		}
		if err := listen(ctx, &looks, messages, beside, hear); err != nil {
			return value, err
		}
	}
}

// listen hears messages until one that is not beside comes, or a look into storage is due.
func listen(ctx context.Context, looks *looks, messages <-chan *nats.Msg, beside string, hear func(*nats.Msg)) error {
	for !looks.due() {
		timer := time.NewTimer(time.Until(looks.at))
		select {
		case msg := <-messages:
			if msg.Subject != beside {
				timer.Stop()
				return nil
			}
			hear(msg)
		case <-looks.back:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// drain hears what has arrived already.
func drain(messages <-chan *nats.Msg, beside string, hear func(*nats.Msg)) {
	for {
		select {
		case msg := <-messages:
			if msg.Subject == beside {
				hear(msg)
			}
		default:
			return
		}
	}
}
