package records

import (
	"context"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
)

// Accept writes a as the record of its request; the first write wins. If the request has a record already, Accept returns
// that one and false. It refuses what [CheckAccepted] refuses, because no log could begin with it.
func (b *Requests) Accept(ctx context.Context, a record.Accepted) (stored record.Accepted, first bool, err error) {
	subject, err := b.conn.Subject(broker.KindAccept, a.Tenant, a.RequestID)
	if err != nil {
		return stored, false, err
	}
	if err := CheckAccepted(a); err != nil {
		return stored, false, err
	}
	return broker.PutFirst(ctx, b.conn, b.conn.EventsStream(), subject, a)
}

// AcceptedRecord is the record of a request with its sequence in the stream, which is below those of the log of the request.
type AcceptedRecord struct {
	record.Accepted
	Sequence uint64
}

// AcceptedRecord returns the record of a request with its sequence, or record.ErrNotFound.
func (b *Requests) AcceptedRecord(ctx context.Context, log broker.LogID) (AcceptedRecord, error) {
	subject, err := b.conn.Subject(broker.KindAccept, log.Tenant, log.RequestID)
	if err != nil {
		return AcceptedRecord{}, err
	}
	a, sequence, err := broker.Get[record.Accepted](ctx, b.conn, b.conn.EventsStream(), subject)
	return AcceptedRecord{a, sequence}, err
}

// Accepted returns the record of a request, or ErrNotFound.
func (b *Requests) Accepted(ctx context.Context, log broker.LogID) (record.Accepted, error) {
	a, err := b.AcceptedRecord(ctx, log)
	return a.Accepted, err
}
