package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/agentbus/agentbus/pkg/record"
	"github.com/nats-io/nats.go/jetstream"
)

// Accept writes a as the request's record, first write wins. When the request has one already it returns that and false.
// It writes nothing that [CheckAccepted] refuses: no log could begin with it.
func (b *Bus) Accept(ctx context.Context, a record.Accepted) (stored record.Accepted, first bool, err error) {
	subject, err := b.subject(kindAccept, a.Tenant, a.RequestID)
	if err != nil {
		return stored, false, err
	}
	if err := CheckAccepted(a); err != nil {
		return stored, false, err
	}
	return put(ctx, b, b.eventsStream(), subject, a)
}

// AcceptedRecord is the record of a request with its place in the stream: before the request's log.
type AcceptedRecord struct {
	record.Accepted
	Sequence uint64
}

// AcceptedRecord returns the record of a request with its place, or ErrNotFound.
func (b *Bus) AcceptedRecord(ctx context.Context, log LogID) (AcceptedRecord, error) {
	subject, err := b.subject(kindAccept, log.Tenant, log.RequestID)
	if err != nil {
		return AcceptedRecord{}, err
	}
	a, sequence, err := get[record.Accepted](ctx, b, b.eventsStream(), subject)
	return AcceptedRecord{a, sequence}, err
}

// Accepted returns the record of a request, or ErrNotFound.
func (b *Bus) Accepted(ctx context.Context, log LogID) (record.Accepted, error) {
	a, err := b.AcceptedRecord(ctx, log)
	return a.Accepted, err
}

// maxCarried is the largest record that a pointer carries with it.
const maxCarried = 32 << 10

// Start sends the pointer to an accepted request, the index-th on its thread, to the runners, or into the backlog of its
// tenant: see backlog.go. The queue has room for one pointer to a request: while it is there, another is dropped, since it
// would have a living run taken over.
func (b *Bus) Start(ctx context.Context, a record.Accepted, index int) error {
	subject, err := b.subject(kindRequest, a.Tenant, a.AgentID, a.RequestID)
	if err != nil {
		return err
	}
	s := record.Start{
		Tenant: a.Tenant, AgentID: a.AgentID, RequestID: a.RequestID, ThreadID: a.ThreadID, Index: index, Accepted: &a,
	}
	msg, err := newMessage(ctx, subject, s)
	if errors.Is(err, ErrTooLarge) || err == nil && len(msg.Data) > maxCarried {
		s.Accepted = nil
		msg, err = newMessage(ctx, subject, s)
	}
	if err != nil {
		return err
	}
	msg.Header.Set(jetstream.MsgIDHeader, a.Tenant+"/"+a.RequestID)
	return b.point(ctx, a.Tenant, msg)
}

// Pointed reports whether there is a pointer to a request: one that waits, in the queue or in the backlog, or that somebody
// works on.
func (b *Bus) Pointed(ctx context.Context, a record.Accepted) (bool, error) {
	subject, err := b.subject(kindRequest, a.Tenant, a.AgentID, a.RequestID)
	if err != nil {
		return false, err
	}
	// In this order, since a pointer moves from the one to the other.
	parked, err := b.has(ctx, b.backlogStream(), b.parked(subject))
	if err != nil || parked {
		return parked, err
	}
	return b.has(ctx, b.requestsStream(), subject)
}

// EnsurePointer sends the pointer to an accepted request, as Start does, if there is none, and reports whether it did. Where
// the pointer waits in the backlog it does what the process that should have moved it may have left out.
func (b *Bus) EnsurePointer(ctx context.Context, a record.Accepted, index int) (sent bool, err error) {
	pointed, err := b.Pointed(ctx, a)
	if err != nil {
		return false, err
	}
	if pointed {
		return false, b.advance(ctx, a.Tenant)
	}
	err = b.Start(ctx, a, index)
	return err == nil, err
}

// Waiting counts the requests that no runner has taken yet, of all tenants and agents, those in the backlog included.
func (b *Bus) Waiting(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	queue, err := b.js.Consumer(ctx, b.requestsStream(), runnerConsumer)
	if err != nil {
		return 0, fmt.Errorf("look at queue %s: %w", b.requestsStream(), err)
	}
	backlog, err := b.streamInfo(ctx, b.backlogStream())
	if err != nil {
		return 0, err
	}
	return int64(queue.CachedInfo().NumPending + backlog.State.Msgs), nil //nolint:gosec // MaxQueue is far less
}

// Starts gives pointers to handle, at most slots at a time, until ctx is done; then it waits for the handlers. See
// [Handle] for what handle may return.
func (b *Bus) Starts(ctx context.Context, slots int, handle Handle[record.Start]) error {
	return work(ctx, b, b.requestsStream(), runnerConsumer, slots, b.advancing(handle))
}

// Abort asks for the end of a request. Only the first abort counts; later ones return false.
func (b *Bus) Abort(ctx context.Context, tenant string, a record.Abort) (first bool, err error) {
	subject, err := b.subject(kindCommand, tenant, a.RequestID, commandAbort)
	if err != nil {
		return false, err
	}
	_, first, err = put(ctx, b, b.eventsStream(), subject, a)
	return first, err
}

// Aborted returns the abort of a request, or ErrNotFound.
func (b *Bus) Aborted(ctx context.Context, log LogID) (record.Abort, error) {
	subject, err := b.subject(kindCommand, log.Tenant, log.RequestID, commandAbort)
	if err != nil {
		return record.Abort{}, err
	}
	a, _, err := get[record.Abort](ctx, b, b.eventsStream(), subject)
	return a, err
}

// Commands is what users have asked of a request that runs.
type Commands struct {
	Abort    *record.Abort // nil = none
	Steers   []record.Steer
	Sequence uint64 // of the newest command: what comes next stands behind it
}

// Commands returns what was asked of a request behind the command with sequence after (0 = all): everything that was
// acknowledged before the call. Mostly that is nothing, and costs one question to the broker.
func (b *Bus) Commands(ctx context.Context, log LogID, after uint64) (Commands, error) {
	asked := Commands{Sequence: after}
	subject, err := b.subject(kindCommand, log.Tenant, log.RequestID, commandAbort)
	if err != nil {
		return asked, err
	}
	for m, err := range b.records(ctx, strings.TrimSuffix(subject, commandAbort)+">", after) {
		if err != nil {
			return asked, err
		}
		if m.Subject == subject {
			asked.Abort = new(record.Abort)
			err = m.decode(asked.Abort)
		} else {
			var s record.Steer
			err = m.decode(&s)
			asked.Steers = append(asked.Steers, s)
		}
		if err != nil {
			return asked, err
		}
		asked.Sequence = m.Sequence
	}
	return asked, nil
}

// WatchAbort calls found, once, when the request is aborted or was already. It learns of it at once; where that message
// is lost, from storage, which it looks into after a second and then less often. Call stop to end the watch: it returns
// when found is not running any more.
func (b *Bus) WatchAbort(ctx context.Context, log LogID, found func(record.Abort)) (stop func(), err error) {
	subject, err := b.subject(kindCommand, log.Tenant, log.RequestID, commandAbort)
	if err != nil {
		return nil, fmt.Errorf("watch for an abort: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		a, err := await[record.Abort](ctx, b, b.eventsStream(), subject, "", nil)
		if err == nil && ctx.Err() == nil {
			found(a)
		}
	})
	return func() {
		cancel()
		watch.Wait()
	}, nil
}
