package workqueue

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/nats-io/nats.go/jetstream"
)

// maxCarried is the largest record that a pointer carries with it.
const maxCarried = 32 << 10

// Start sends the pointer to an accepted request, the index-th on its thread, to the runners, or into the backlog of its
// tenant: see backlog.go. The queue holds one pointer to a request and drops another one, which would cause a takeover of a
// running request.
func (b *RequestQueue) Start(ctx context.Context, a record.Accepted, index int) error {
	subject, err := b.conn.Subject(broker.KindRequest, a.Tenant, a.AgentID, a.RequestID)
	if err != nil {
		return err
	}
	s := record.Start{
		Tenant: a.Tenant, AgentID: a.AgentID, RequestID: a.RequestID, ThreadID: a.ThreadID, Index: index, Accepted: &a,
	}
	msg, err := broker.NewMessage(ctx, subject, s)
	if errors.Is(err, broker.ErrTooLarge) || err == nil && len(msg.Data) > maxCarried {
		s.Accepted = nil
		msg, err = broker.NewMessage(ctx, subject, s)
	}
	if err != nil {
		return err
	}
	msg.Header.Set(jetstream.MsgIDHeader, a.Tenant+"/"+a.RequestID)
	return b.putPointer(ctx, a.Tenant, msg)
}

// HasPointer reports whether a request has a pointer: one that waits in the queue or in the backlog, or that a runner has
// taken.
func (b *RequestQueue) HasPointer(ctx context.Context, a record.Accepted) (bool, error) {
	subject, err := b.conn.Subject(broker.KindRequest, a.Tenant, a.AgentID, a.RequestID)
	if err != nil {
		return false, err
	}
	// In this order, since a pointer moves from the one to the other.
	parked, err := b.conn.Has(ctx, b.conn.BacklogStream(), b.conn.BacklogSubject(subject))
	if err != nil || parked {
		return parked, err
	}
	return b.conn.Has(ctx, b.conn.RequestsStream(), subject)
}

// EnsurePointer sends the pointer to an accepted request, as Start does, unless the request has one, and reports whether it
// did. If the pointer waits in the backlog, EnsurePointer moves the pointers of the tenant that another process should have
// moved.
func (b *RequestQueue) EnsurePointer(ctx context.Context, a record.Accepted, index int) (sent bool, err error) {
	pointed, err := b.HasPointer(ctx, a)
	if err != nil {
		return false, err
	}
	if pointed {
		return false, b.advance(ctx, a.Tenant)
	}
	err = b.Start(ctx, a, index)
	return err == nil, err
}

// QueueDepth counts the requests that no runner has taken yet, of all tenants and agents, those in the backlog included.
func (b *RequestQueue) QueueDepth(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, broker.AnswerWait)
	defer cancel()
	queue, err := b.conn.JetStream.Consumer(ctx, b.conn.RequestsStream(), broker.RunnerConsumer)
	if err != nil {
		return 0, fmt.Errorf("look at queue %s: %w", b.conn.RequestsStream(), err)
	}
	backlog, err := b.conn.StreamInfo(ctx, b.conn.BacklogStream())
	if err != nil {
		return 0, err
	}
	return int64(queue.CachedInfo().NumPending + backlog.State.Msgs), nil //nolint:gosec // MaxQueue is far less
}

// ConsumeRequests calls handle with pointers, at most slots at a time, until ctx is done; then it waits for the handlers.
// See [Handle] for what handle may return.
func (b *RequestQueue) ConsumeRequests(ctx context.Context, slots int, handle Handle[record.Start]) error {
	return broker.Work(ctx, b.conn, b.conn.RequestsStream(), broker.RunnerConsumer, slots, b.Advancing(handle))
}

// OpenRequests counts the requests of a tenant that have a pointer: those that wait for a runner or run. A pointer is
// removed after the terminal event is stored, so the count is right after crashes, and includes the requests that agents
// make. Requests that wait for another one on their thread have no pointer yet. A pointer that moves from the backlog into
// the queue at this moment may count twice.
func (b *RequestQueue) OpenRequests(ctx context.Context, tenant string) (int, error) {
	subject, err := b.conn.Subject(broker.KindRequest, tenant)
	if err != nil {
		return 0, err
	}
	queued, err := b.conn.Count(ctx, b.conn.RequestsStream(), subject+".>")
	if err != nil {
		return 0, err
	}
	parked, err := b.conn.Count(ctx, b.conn.BacklogStream(), b.conn.BacklogSubject(subject)+".>")
	return queued + parked, err
}
