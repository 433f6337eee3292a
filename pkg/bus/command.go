package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"

	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// The kinds of commands to a request that runs.
const (
	commandAbort = "abort"
	commandSteer = "steer"
)

// Steer records what a user says to a running request. First write wins; see [Bus.Accept] for the results.
func (b *Bus) Steer(ctx context.Context, tenant string, s record.Steer) (stored record.Steer, first bool, err error) {
	subject, err := b.subject(kindCommand, tenant, s.RequestID, commandSteer, s.SteerID)
	if err != nil {
		return stored, false, err
	}
	return put(ctx, b, b.eventsStream(), subject, s)
}

// SteerRecord is a steer with its place in the stream.
type SteerRecord struct {
	record.Steer
	Sequence uint64
}

// Steers yields the steers of a request with a sequence above after, in order: all that were acknowledged before the call.
func (b *Bus) Steers(ctx context.Context, log LogID, after uint64) iter.Seq2[SteerRecord, error] {
	return func(yield func(SteerRecord, error) bool) {
		subject, err := b.subject(kindCommand, log.Tenant, log.RequestID, commandSteer)
		if err != nil {
			yield(SteerRecord{}, err)
			return
		}
		for m, err := range b.records(ctx, subject+".*", after) {
			s := SteerRecord{Sequence: m.Sequence}
			if err == nil {
				err = m.decode(&s.Steer)
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// records yields the messages of EVENTS on a subject, which may be a wildcard, with a sequence above after: all that the
// leader has when it is called.
func (b *Bus) records(ctx context.Context, subject string, after uint64) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		newest, err := b.last(ctx, b.eventsStream(), subject)
		if errors.Is(err, ErrNotFound) {
			return
		}
		for err == nil && after < newest.Sequence {
			var messages []stored
			messages, _, err = b.page(ctx, b.eventsStream(), subject, after+1, fullPage())
			if err == nil && len(messages) == 0 {
				err = pause(ctx, replicaPause)
			}
			for _, m := range messages {
				if !yield(m, nil) {
					return
				}
				after = m.Sequence
			}
		}
		if err != nil {
			yield(stored{}, err)
		}
	}
}

func (m stored) decode(value any) error {
	if err := json.Unmarshal(m.Data, value); err != nil {
		return fmt.Errorf("decode record %s: %w", m.Subject, err)
	}
	return nil
}

// abortBacklog bounds the aborts that wait for the process that watches them.
const abortBacklog = 256

// WatchAborts calls found for the aborts of all tenants as they are stored, one after the other, until ctx is done. Some
// may be lost: it is a quick look, and a sweep must follow.
func (b *Bus) WatchAborts(ctx context.Context, found func(tenant string, a record.Abort)) error {
	messages := make(chan *nats.Msg, abortBacklog)
	stop, err := b.subscribe(b.live(b.prefix+"."+kindCommand+".*.*."+commandAbort), messages)
	if err != nil {
		return fmt.Errorf("watch aborts: %w", err)
	}
	defer stop()
	for {
		select {
		case msg := <-messages:
			_, tokens := b.tokens(b.stored(msg.Subject))
			var a record.Abort
			if err := json.Unmarshal(msg.Data, &a); err != nil || len(tokens) == 0 {
				slog.WarnContext(ctx, "unreadable abort", "subject", msg.Subject, "error", err)
				continue
			}
			found(tokens[0], a)
		case <-ctx.Done():
			return nil
		}
	}
}
