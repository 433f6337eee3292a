package records

import (
	"context"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
)

// Accept writes a as the request's record, first write wins. When the request has one already it returns that and false.
// It writes nothing that [CheckAccepted] refuses: no log could begin with it.
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

// AcceptedRecord is the record of a request with its place in the stream: before the request's log.
type AcceptedRecord struct {
	record.Accepted
	Sequence uint64
}

// AcceptedRecord returns the record of a request with its place, or ErrNotFound.
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
