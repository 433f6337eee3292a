package broker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/agentbus/agentbus/pkg/id"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// PutFirst writes value as the first record on subject. If the subject has a record already, it returns that one and false.
func PutFirst[T any](ctx context.Context, b *Conn, stream, subject string, value T) (first T, won bool, err error) {
	_, err = CompareAndPut(ctx, b, stream, subject, value, 0)
	if err == nil {
		return value, true, nil
	}
	if !errors.Is(err, ErrConflict) {
		return first, false, err
	}
	first, _, err = Get[T](ctx, b, stream, subject)
	return first, false, err
}

// CompareAndPut writes value on subject if its newest record has sequence last. ErrConflict otherwise.
func CompareAndPut(ctx context.Context, b *Conn, stream, subject string, value any, last uint64) (uint64, error) {
	msg, err := NewMessage(ctx, subject, value)
	if err != nil {
		return 0, err
	}
	return b.CompareAndAppend(ctx, stream, msg, id.New("rec"), last)
}

// Get returns the newest record on subject and its sequence, from the leader, or ErrNotFound.
func Get[T any](ctx context.Context, b *Conn, stream, subject string) (value T, sequence uint64, err error) {
	m, err := b.Newest(ctx, stream, subject)
	if err != nil {
		return value, 0, err
	}
	if err := json.Unmarshal(m.Data, &value); err != nil {
		return value, 0, fmt.Errorf("decode record %s: %w", subject, err)
	}
	return value, m.Sequence, nil
}

// NewMessage returns a message of value that carries ctx's trace.
func NewMessage(ctx context.Context, subject string, value any) (*nats.Msg, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode record %s: %w", subject, err)
	}
	if len(body) > MaxEventBytes {
		return nil, fmt.Errorf("record %s of %d bytes: %w", subject, len(body), ErrTooLarge)
	}
	msg := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: body}
	Inject(ctx, msg.Header)
	return msg, nil
}

// Await returns the first record on subject, now or when it is stored. It calls handle with the messages that arrive meanwhile
// on the subject side, unless that is empty. It ends with ctx.
func Await[T any](ctx context.Context, b *Conn, stream, subject, side string, handle func(*nats.Msg)) (T, error) {
	var value T
	messages := make(chan *nats.Msg, 1) // one message suffices: the record is then read from storage
	if side != "" {
		messages = make(chan *nats.Msg, 256)
	}
	for _, s := range []string{b.Live(subject), side} {
		if s == "" {
			continue
		}
		stop, err := b.Subscribe(s, messages)
		if err != nil {
			return value, fmt.Errorf("wait for %s: %w", subject, err)
		}
		defer stop()
	}
	_ = b.Flush(ctx) // fails while the connection is down; the checks below repair what is missed
	checks := NewChecks(b.Link)
	for {
		value, _, err := Get[T](ctx, b, stream, subject)
		if err == nil {
			drain(messages, side, handle)
			return value, nil
		}
		if !errors.Is(err, ErrNotFound) {
			checks.Soon()
		}
		if err := listen(ctx, &checks, messages, side, handle); err != nil {
			return value, err
		}
	}
}

// listen handles messages until one arrives that is not on side, or storage must be checked.
func listen(ctx context.Context, checks *Checks, messages <-chan *nats.Msg, side string, handle func(*nats.Msg)) error {
	for !checks.Due() {
		timer := time.NewTimer(time.Until(checks.At))
		select {
		case msg := <-messages:
			if msg.Subject != side {
				timer.Stop()
				return nil
			}
			handle(msg)
		case <-checks.Back:
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

// drain handles the messages that have arrived already.
func drain(messages <-chan *nats.Msg, side string, handle func(*nats.Msg)) {
	for {
		select {
		case msg := <-messages:
			if msg.Subject == side {
				handle(msg)
			}
		default:
			return
		}
	}
}

// Records yields the messages of EVENTS on a subject, which may be a wildcard, with a sequence above after: all that the
// leader has when it is called.
func (b *Conn) Records(ctx context.Context, subject string, after uint64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		newest, err := b.Newest(ctx, b.EventsStream(), subject)
		if errors.Is(err, ErrNotFound) {
			return
		}
		for err == nil && after < newest.Sequence {
			var messages []Message
			messages, _, err = b.Page(ctx, b.EventsStream(), subject, after+1, FullPage())
			if err == nil && len(messages) == 0 {
				err = Pause(ctx, ReplicaPause)
			}
			for _, m := range messages {
				if !yield(m, nil) {
					return
				}
				after = m.Sequence
			}
		}
		if err != nil {
			yield(Message{}, err)
		}
	}
}

// Decode decodes the JSON of a message.
func (m Message) Decode(value any) error {
	if err := json.Unmarshal(m.Data, value); err != nil {
		return fmt.Errorf("decode record %s: %w", m.Subject, err)
	}
	return nil
}

const (
	// MaxEventBytes is the size of the largest event, and of the largest record. A message's limit of 1 MiB counts its
	// headers too.
	MaxEventBytes = 900 << 10
	// ClaimReserve is kept free in the first frame of a log for what is not known when its request is accepted: the claim,
	// and the provider and model of the agent's configuration.
	ClaimReserve = 16 << 10
	// MaxClaimBytes is the size of the largest frame that a claim makes. Its message contains headers too.
	MaxClaimBytes = MaxEventBytes + ClaimReserve
)
