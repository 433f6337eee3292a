package records

import (
	"context"
	"iter"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
)

// ThreadRecord is a record of a thread with its sequence in the stream.
type ThreadRecord = record.ThreadRecord

// Thread returns the newest record of a thread, from the leader, or ErrNotFound.
func (b *Threads) Thread(ctx context.Context, tenant, threadID string) (ThreadRecord, error) {
	subject, err := b.conn.Subject(broker.KindThread, tenant, threadID)
	if err != nil {
		return ThreadRecord{}, err
	}
	t, sequence, err := broker.Get[record.Thread](ctx, b.conn, b.conn.EventsStream(), subject)
	return ThreadRecord{Thread: t, Sequence: sequence}, err
}

// AdvanceThread appends next to its thread if the newest record still has sequence after (0 = the thread has no record);
// record.ErrConflict otherwise.
func (b *Threads) AdvanceThread(ctx context.Context, tenant string, next record.Thread, after uint64) (ThreadRecord, error) {
	subject, err := b.conn.Subject(broker.KindThread, tenant, next.ThreadID)
	if err != nil {
		return ThreadRecord{}, err
	}
	sequence, err := broker.CompareAndPut(ctx, b.conn, b.conn.EventsStream(), subject, next, after)
	return ThreadRecord{Thread: next, Sequence: sequence}, err
}

// ThreadRecords yields the stored records of a thread with a sequence above after, in order.
func (b *Threads) ThreadRecords(ctx context.Context, tenant, threadID string, after uint64) iter.Seq2[ThreadRecord, error] {
	return func(yield func(ThreadRecord, error) bool) {
		subject, err := b.conn.Subject(broker.KindThread, tenant, threadID)
		if err != nil {
			yield(ThreadRecord{}, err)
			return
		}
		for m, err := range b.conn.Records(ctx, subject, after) {
			var t ThreadRecord
			if err == nil {
				t, err = threadOf(m)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

func threadOf(m broker.Message) (ThreadRecord, error) {
	t := ThreadRecord{Sequence: m.Sequence}
	return t, m.Decode(&t.Thread)
}

// ThreadFollower reads a thread's records, those stored and those to come, in order. It is for one goroutine.
type ThreadFollower struct{ tail *broker.Tail }

// FollowThread follows a thread from the record after the one with sequence after. Close the follower.
func (b *Threads) FollowThread(ctx context.Context, tenant, threadID string, after uint64) (*ThreadFollower, error) {
	subject, err := b.conn.Subject(broker.KindThread, tenant, threadID)
	if err != nil {
		return nil, err
	}
	records, err := b.conn.Tail(ctx, b.conn.EventsStream(), subject, b.conn.Live(subject), after)
	if err != nil {
		return nil, err
	}
	return &ThreadFollower{records}, nil
}

// Next returns the next record. The error is ErrIdle if no record was read within wait, also because the broker did not
// respond, and the error of ctx when ctx is done.
func (f *ThreadFollower) Next(ctx context.Context, wait time.Duration) (ThreadRecord, error) {
	m, err := f.tail.Next(ctx, wait)
	switch {
	case err == nil:
		return threadOf(m)
	case ctx.Err() != nil:
		return ThreadRecord{}, ctx.Err()
	default:
		return ThreadRecord{}, broker.ErrIdle
	}
}

// Close ends the subscription. It may be called twice.
func (f *ThreadFollower) Close() { f.tail.Close() }
