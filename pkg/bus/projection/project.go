package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/eventlog"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Entry is one message of the EVENTS stream. Exactly one of Accepted, Thread, Session and Frame is set.
type Entry struct {
	Tenant    string
	RequestID string // with Accepted and Frame
	ThreadID  string // with Accepted, Thread and Session
	Sequence  uint64
	Time      time.Time // when it was stored, by the broker's clock
	Accepted  *record.Accepted
	Thread    *record.Thread
	Session   *record.Session
	Frame     *event.Frame
}

// Apply stores a batch of entries. It returns one error for each entry (nil = stored; otherwise the entry is delivered again
// after a pause), or an error that concerns them all.
type Apply func(ctx context.Context, batch []Entry) ([]error, error)

const (
	// projectBatch is the most entries of one batch.
	projectBatch = 1024
	// projectWait bounds one wait for an entry.
	projectWait = 5 * time.Second
)

// Project calls apply with every entry at least once, in the order of the stream except for those that are delivered again,
// until ctx is done. All processes that project share the work. A batch contains the messages of the last moments, since a
// large batch costs less than several small ones; a reader that waits for an entry sends on hurry, which may be nil.
func (b *Source) Project(ctx context.Context, hurry <-chan struct{}, apply Apply) error {
	consumer, err := b.conn.Consumer(ctx, b.conn.EventsStream(), broker.HistoryConsumer)
	if err != nil && ctx.Err() == nil { // else ctx was done before the first entry
		return err
	}
	for ctx.Err() == nil {
		batch, err := b.fetch(ctx, consumer)
		if err != nil {
			_ = broker.Pause(ctx, broker.Refill) // the loop ends with ctx
		}
		if len(batch) == 0 {
			continue
		}
		batch = gather(ctx, batch, hurry, func() ([]jetstream.Msg, error) { return b.take(consumer) })
		b.project(ctx, batch, consumer.CachedInfo().Config.AckWait/4, apply)
	}
	return nil
}

// LastSequence returns the sequence of the newest message of the EVENTS stream, as its leader has it.
func (b *Source) LastSequence(ctx context.Context) (uint64, error) {
	info, err := b.conn.StreamInfo(ctx, b.conn.EventsStream())
	if err != nil {
		return 0, err
	}
	return info.State.LastSeq, nil
}

// Projected is the progress of the projection.
type Projected struct {
	Through uint64 // every entry up to this sequence is stored
	Given   uint64 // no entry after this sequence was delivered yet
	Again   int    // how many entries failed and are delivered again
}

// Projected returns the progress of the projection.
func (b *Source) Projected(ctx context.Context) (Projected, error) {
	consumer, err := b.conn.JetStream.Consumer(ctx, b.conn.EventsStream(), broker.HistoryConsumer)
	if err != nil {
		return Projected{}, fmt.Errorf("look how far the projection is: %w", err)
	}
	info := consumer.CachedInfo()
	return Projected{Through: info.AckFloor.Stream, Given: info.Delivered.Stream, Again: info.NumRedelivered}, nil
}

// take returns the messages that are there.
func (b *Source) take(consumer jetstream.Consumer) ([]jetstream.Msg, error) {
	if err := b.conn.MayPull(); err != nil {
		return nil, err
	}
	some, err := consumer.FetchNoWait(projectBatch)
	if err != nil {
		return nil, err
	}
	var batch []jetstream.Msg
	for msg := range some.Messages() {
		batch = append(batch, msg)
	}
	return batch, some.Error()
}

// fetch returns the messages that are there, or waits a while for one.
func (b *Source) fetch(ctx context.Context, consumer jetstream.Consumer) ([]jetstream.Msg, error) {
	batch, err := b.take(consumer)
	if len(batch) > 0 || err != nil {
		return batch, err
	}
	ctx, cancel := b.conn.Link.Within(ctx, projectWait)
	defer cancel()
	msg, err := consumer.Next(jetstream.FetchContext(ctx))
	if err != nil && ctx.Err() == nil && !errors.Is(err, nats.ErrTimeout) {
		return nil, err
	}
	if msg == nil {
		return nil, nil
	}
	return []jetstream.Msg{msg}, nil
}

// project applies one batch and settles its messages. While a slow store works, the batch is kept alive.
func (b *Source) project(ctx context.Context, batch []jetstream.Msg, beat time.Duration, apply Apply) {
	entries := make([]Entry, 0, len(batch))
	readable := batch[:0]
	for _, msg := range batch {
		if kind, _ := b.conn.Tokens(msg.Subject()); kind == broker.KindCommand {
			_ = msg.Ack() // nothing to project; if that fails it comes again
			continue
		}
		entry, err := b.entry(msg)
		if err != nil {
			// No process could decode it, and it must not block the messages after it.
			slog.ErrorContext(ctx, "projection skipped an unreadable message", "subject", msg.Subject(), "error", err)
			_ = msg.Term()
			continue
		}
		entries, readable = append(entries, entry), append(readable, msg)
	}
	if len(entries) == 0 {
		return
	}
	alive, cancel := context.WithCancel(ctx)
	var heart sync.WaitGroup
	heart.Go(func() { broker.KeepAlive(alive, beat, readable...) })
	errs, err := apply(ctx, entries)
	cancel()
	heart.Wait()
	for i, msg := range readable {
		if err != nil || errs[i] != nil {
			_ = msg.NakWithDelay(broker.Redelivery) // if that fails too, the message comes back by itself
			continue
		}
		_ = msg.Ack()
	}
}

// Entries returns the next entries of the EVENTS stream with a sequence of at least from, and the sequence from which the
// next call continues: from itself if the stream has no later message. It does not use the consumer of [Source.Project].
func (b *Source) Entries(ctx context.Context, from uint64) (entries []Entry, next uint64, err error) {
	all := b.conn.Prefix + ".>"
	messages, _, err := b.conn.Page(ctx, b.conn.EventsStream(), all, from, broker.FullPage())
	if err != nil {
		return nil, from, err
	}
	if len(messages) == 0 {
		return nil, from, b.endsBefore(ctx, all, from)
	}
	for _, m := range messages {
		next = m.Sequence + 1
		if kind, _ := b.conn.Tokens(m.Subject); kind == broker.KindCommand {
			continue // nothing to project
		}
		e, err := b.entryOf(m)
		if err != nil {
			slog.ErrorContext(ctx, "projection skipped an unreadable message", "subject", m.Subject, "error", err)
			continue
		}
		entries = append(entries, e)
	}
	return entries, next, nil
}

// endsBefore returns nil when the leader of the stream has no message with a sequence of at least from either: the page of
// a replica may be stale.
func (b *Source) endsBefore(ctx context.Context, subject string, from uint64) error {
	last, err := b.conn.LastOfLeader(ctx, b.conn.EventsStream(), subject)
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return nil
	case err != nil:
		return err
	case last.Sequence >= from:
		return fmt.Errorf("read the stream from %d: the replica that answered does not have it yet", from)
	default:
		return nil
	}
}

func (b *Source) entry(msg jetstream.Msg) (Entry, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return Entry{}, err
	}
	return b.entryOf(broker.Message{
		Subject: msg.Subject(), Sequence: meta.Sequence.Stream, Time: meta.Timestamp, Header: msg.Headers(), Data: msg.Data(),
	})
}

func (b *Source) entryOf(msg broker.Message) (Entry, error) {
	kind, tokens := b.conn.Tokens(msg.Subject)
	if len(tokens) != 2 {
		return Entry{}, fmt.Errorf("subject %s has an unknown form", msg.Subject)
	}
	e := Entry{Tenant: tokens[0], Sequence: msg.Sequence, Time: msg.Time}
	switch kind {
	case broker.KindEvent:
		frame, err := eventlog.ParseFrame(msg.Header, msg.Data, e.Sequence, e.Time)
		e.RequestID, e.Frame = tokens[1], &frame
		return e, err
	case broker.KindAccept:
		e.Accepted = new(record.Accepted)
		err := json.Unmarshal(msg.Data, e.Accepted)
		e.RequestID, e.ThreadID = tokens[1], e.Accepted.ThreadID
		return e, err
	case broker.KindThread:
		e.Thread = new(record.Thread)
		e.ThreadID = tokens[1]
		return e, json.Unmarshal(msg.Data, e.Thread)
	case broker.KindSession:
		e.Session = new(record.Session)
		e.ThreadID = tokens[1]
		return e, json.Unmarshal(msg.Data, e.Session)
	default:
		return Entry{}, fmt.Errorf("subject %s has an unknown form", msg.Subject)
	}
}
