package bus

import (
	"context"
	"iter"
	"time"

	"github.com/agentbus/agentbus/pkg/record"
)

// ThreadRecord is a record of a thread with its sequence in the stream.
type ThreadRecord = record.ThreadRecord

// Thread returns the newest record of a thread, from the leader, or ErrNotFound.
func (b *Bus) Thread(ctx context.Context, tenant, threadID string) (ThreadRecord, error) {
	subject, err := b.subject(kindThread, tenant, threadID)
	if err != nil {
		return ThreadRecord{}, err
	}
	t, sequence, err := get[record.Thread](ctx, b, b.eventsStream(), subject)
	return ThreadRecord{Thread: t, Sequence: sequence}, err
}

// AdvanceThread appends next to its thread if the newest record still has sequence after (0 = there is none).
// ErrConflict when somebody else did so first.
func (b *Bus) AdvanceThread(ctx context.Context, tenant string, next record.Thread, after uint64) (ThreadRecord, error) {
	subject, err := b.subject(kindThread, tenant, next.ThreadID)
	if err != nil {
		return ThreadRecord{}, err
	}
	sequence, err := swapRecord(ctx, b, b.eventsStream(), subject, next, after)
	return ThreadRecord{Thread: next, Sequence: sequence}, err
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
type ThreadFollower struct{ tail *tail }

// FollowThread starts to follow a thread behind the record with sequence after. Close the follower.
func (b *Bus) FollowThread(ctx context.Context, tenant, threadID string, after uint64) (*ThreadFollower, error) {
	subject, err := b.subject(kindThread, tenant, threadID)
	if err != nil {
		return nil, err
	}
	records, err := b.tail(ctx, b.eventsStream(), subject, b.live(subject), after)
	if err != nil {
		return nil, err
	}
	return &ThreadFollower{records}, nil
}

// Next returns the next record; ErrIdle when none came for wait, also because the broker does not answer; ctx's error when
// that is done.
func (f *ThreadFollower) Next(ctx context.Context, wait time.Duration) (ThreadRecord, error) {
	m, err := f.tail.next(ctx, wait)
	switch {
	case err == nil:
		return m.thread()
	case ctx.Err() != nil:
		return ThreadRecord{}, ctx.Err()
	default:
		return ThreadRecord{}, ErrIdle
	}
}

// Close ends the subscription. It may be called twice.
func (f *ThreadFollower) Close() { f.tail.close() }
