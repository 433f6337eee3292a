package records

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
)

// SessionRecord is a record of a session with its sequence in the stream, or 0 if only history has the record.
type SessionRecord struct {
	record.Session
	Sequence uint64
}

// Session returns the newest record of a session, from the leader. The error is record.ErrNotFound if the thread has no
// metadata, or if its record has expired from the stream; history has it then.
func (b *Sessions) Session(ctx context.Context, tenant, threadID string) (SessionRecord, error) {
	subject, err := b.conn.Subject(broker.KindSession, tenant, threadID)
	if err != nil {
		return SessionRecord{}, err
	}
	s, sequence, err := broker.Get[record.Session](ctx, b.conn, b.conn.EventsStream(), subject)
	return SessionRecord{s, sequence}, err
}

// UpdateSession appends next to its session if after is still the newest record (the zero record if the session has no
// record); record.ErrConflict otherwise. It returns the record that it wrote, with an UpdatedAt later than that of after:
// UpdatedAt gives the order of the records of a session, because sequences restart with a new stream.
func (b *Sessions) UpdateSession(
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
