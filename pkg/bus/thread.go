package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/command"
	"github.com/nats-io/nats.go"
)

// ThreadRecord is a record of a thread with its place in the stream.
type ThreadRecord struct {
	command.Thread
	Sequence uint64
}

// Thread returns the newest record of a thread, from the leader, or ErrNotFound.
func (b *Bus) Thread(ctx context.Context, tenant, threadID string) (ThreadRecord, error) {
	subject, err := b.subject(kindThread, tenant, threadID)
	if err != nil {
		return ThreadRecord{}, err
	}
	t, sequence, err := get[command.Thread](ctx, b, b.eventsStream(), subject)
	return ThreadRecord{t, sequence}, err
}

// AdvanceThread appends next to its thread if the newest record still has sequence after (0 = there is none).
// ErrConflict when somebody else did so first.
func (b *Bus) AdvanceThread(ctx context.Context, tenant string, next command.Thread, after uint64) (ThreadRecord, error) {
	subject, err := b.subject(kindThread, tenant, next.ThreadID)
	if err != nil {
		return ThreadRecord{}, err
	}
	sequence, err := swapRecord(ctx, b, b.eventsStream(), subject, next, after)
	return ThreadRecord{next, sequence}, err
}

// ThreadRecords yields the stored records of a thread with a sequence above after, in order.
func (b *Bus) ThreadRecords(ctx context.Context, tenant, threadID string, after uint64) iter.Seq2[ThreadRecord, error] {
	return func(yield func(ThreadRecord, error) bool) {
		subject, err := b.subject(kindThread, tenant, threadID)
		if err != nil {
			yield(ThreadRecord{}, err)
			return
		}
		for m, err := range b.records(ctx, subject, after) {
			var t ThreadRecord
			if err == nil {
				t, err = m.thread()
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

func (m stored) thread() (ThreadRecord, error) {
	t := ThreadRecord{Sequence: m.Sequence}
	return t, m.decode(&t.Thread)
}

// ThreadFollower reads a thread's records, those stored and those to come, in order. It is for one goroutine.
type ThreadFollower struct {
	bus      *Bus
	subject  string
	stop     func()
	messages chan *nats.Msg // says that something came; storage is read
	after    uint64         // sequence of the newest record that was read
	known    uint64         // sequence of the newest record that there is
	ahead    []ThreadRecord
	stale    bool
}

// FollowThread starts to follow a thread behind the record with sequence after. Close the follower.
func (b *Bus) FollowThread(ctx context.Context, tenant, threadID string, after uint64) (*ThreadFollower, error) {
	subject, err := b.subject(kindThread, tenant, threadID)
	if err != nil {
		return nil, err
	}
	messages := make(chan *nats.Msg, 1)
	stop, err := b.subscribe(b.live(subject), messages)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	if err := b.flush(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	f := &ThreadFollower{bus: b, subject: subject, stop: stop, messages: messages, after: after, stale: true}
	newest, err := b.last(ctx, b.eventsStream(), subject)
	if err != nil && !errors.Is(err, ErrNotFound) {
		f.Close()
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	f.known = newest.Sequence // a replica may not have it yet
	return f, nil
}

// Next returns the next record; ErrIdle when none came for wait, ctx's error when that is done.
func (f *ThreadFollower) Next(ctx context.Context, wait time.Duration) (ThreadRecord, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if len(f.ahead) > 0 {
			next := f.ahead[0]
			f.ahead = f.ahead[1:]
			return next, nil
		}
		if f.stale {
			if err := f.fill(ctx); err != nil {
				return ThreadRecord{}, err
			}
			continue
		}
		select {
		case msg := <-f.messages:
			f.stale = true
			f.known, _ = strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64) // 0 would only mean to look less long
		case <-ctx.Done():
			return ThreadRecord{}, ctx.Err()
		case <-timer.C:
			f.stale = true // the one live message may have been lost: the next call looks into storage first
			return ThreadRecord{}, ErrIdle
		}
	}
}

func (f *ThreadFollower) fill(ctx context.Context) error {
	messages, more, err := f.bus.page(ctx, f.bus.eventsStream(), f.subject, f.after+1)
	if err != nil {
		return err
	}
	for _, m := range messages {
		t, err := m.thread()
		if err != nil {
			return err
		}
		f.ahead = append(f.ahead, t)
		f.after = m.Sequence
	}
	f.stale = more || f.after < f.known
	if f.stale && len(messages) == 0 {
		return pause(ctx, replicaPause)
	}
	return nil
}

// Close ends the subscription. It may be called twice.
func (f *ThreadFollower) Close() {
	f.stop()
}
