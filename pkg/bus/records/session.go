package records

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
)

// SessionRecord is a record of a session with its place in the stream. One that only history knows has sequence 0.
type SessionRecord struct {
	record.Session
	Sequence uint64
}

// Session returns the newest record of a session, from the leader, or ErrNotFound: nothing is noted on the thread, or so
// long ago that only history knows it.
func (b *Sessions) Session(ctx context.Context, tenant, threadID string) (SessionRecord, error) {
	subject, err := b.conn.Subject(broker.KindSession, tenant, threadID)
	if err != nil {
		return SessionRecord{}, err
	}
	s, sequence, err := broker.Get[record.Session](ctx, b.conn, b.conn.EventsStream(), subject)
	return SessionRecord{s, sequence}, err
}

// SwapSession appends next to its session if after is still the newest record (the zero record = there is none).
// ErrConflict when somebody else did so first. It returns the record that it wrote, whose UpdatedAt is later than that of
// after: whoever keeps the newest of several records goes by it, since sequences begin anew with a stream.
func (b *Sessions) SwapSession(
	ctx context.Context, tenant string, next record.Session, after SessionRecord,
) (SessionRecord, error) {
	subject, err := b.conn.Subject(broker.KindSession, tenant, next.ThreadID)
	if err != nil {
		return SessionRecord{}, err
	}
	if earliest := after.UpdatedAt.Add(time.Microsecond); next.UpdatedAt.Before(earliest) {
		next.UpdatedAt = earliest
	}
	sequence, err := broker.CompareAndPut(ctx, b.conn, b.conn.EventsStream(), subject, next, after.Sequence)
	return SessionRecord{next, sequence}, err
}
