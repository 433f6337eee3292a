package workqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The queue of the runners is first in, first out, and holds at most one pointer of each tenant that no runner has taken.
// So a pointer waits for one pointer of each other tenant, however many requests those tenants have. All further pointers
// wait in the BACKLOG stream.
//
// A sender puts a pointer into the queue if runners have taken all pointers that the tenant has there, and into the backlog
// otherwise. Both a runner that has taken a pointer and a sender that has written into the backlog then move the tenant's
// oldest pointer from the backlog into the queue, under the same condition: one of the two sees what the other has written.
// The condition is part of the write: it names the tenant's newest pointer in the queue, and the broker refuses the write if
// there is a newer one.
//
// A pointer is deleted from the backlog after the queue has it. A crash in between leaves a copy. The queue refuses the copy
// while it has the pointer and within the duplicate window; after that, the copy leads to a request that has ended. A sender
// that dies between its two steps leaves a pointer that [Bus.AdvanceBacklog], which the reapers call, moves.

// headerBacklog is the header of a pointer that was moved into the queue: its sequence in the backlog. The runner that
// takes it reads the next one above that sequence, and so need not wait until this one is deleted.
const headerBacklog = "Agentbus-Backlog-Sequence"

// advanceWait bounds the attempts to move a pointer from the backlog into the queue.
const advanceWait = 10 * time.Second

// putPointer puts a pointer into the queue, or into the backlog of its tenant. It retries until ctx is done.
func (b *RequestQueue) putPointer(ctx context.Context, tenant string, msg *nats.Msg) error {
	// An idle tenant, which has no pointer in the queue, needs only this first attempt.
	entry, err := b.tryPut(ctx, tenant, msg, 0)
	if err != nil || entry != refused {
		return err
	}
	switch newest, free := b.mayPut(ctx, tenant); {
	case newest.Subject == msg.Subject:
		return nil // an earlier attempt, or another process, has sent it
	case free:
		if entry, err := b.tryPut(ctx, tenant, msg, newest.Sequence); err != nil || entry != refused {
			return err
		}
	}
	waiting := &nats.Msg{Subject: b.conn.BacklogSubject(msg.Subject), Header: withoutCondition(msg.Header), Data: msg.Data}
	if err := b.conn.Send(ctx, b.conn.BacklogStream(), waiting, msg.Header.Get(jetstream.MsgIDHeader)); err != nil {
		return err
	}
	return b.retryAdvance(ctx, tenant, func(ctx context.Context) error { return b.advanceOnce(ctx, tenant) })
}

// outcome is the result of an attempt to put a pointer into the queue.
type outcome int

const (
	refused outcome = iota // the tenant has a newer pointer there than the caller expected, or one is being written
	added                  // the queue has it now
	present                // the queue had it, or has had it within the duplicate window
)

// tryPut puts a pointer into the queue if the tenant's newest one there has the sequence newest, 0 for none.
func (b *RequestQueue) tryPut(ctx context.Context, tenant string, msg *nats.Msg, newest uint64) (outcome, error) {
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(newest, 10))
	msg.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, b.conn.TenantWildcard(broker.KindRequest, tenant))
	for {
		ack, err := b.conn.Publish(ctx, msg)
		switch {
		case err != nil:
		case ack.Error == nil && ack.Duplicate:
			return present, nil
		case ack.Error == nil:
			return added, nil
		case ack.Error.ErrorCode == broker.CodeWrongLast, ack.Error.ErrorCode == broker.CodeWrongLastR3:
			return refused, nil
		case ack.Error.ErrorCode == broker.CodeNoSpace:
			if has, _ := b.conn.Has(ctx, b.conn.RequestsStream(), msg.Subject); has { // after an error the next attempt asks again
				return present, nil
			}
		}
		if err == nil {
			err = ack.Error
		}
		if !broker.Retryable(err) || broker.Pause(ctx, broker.RetryPause) != nil {
			return refused, fmt.Errorf("send %s: %w", msg.Subject, err)
		}
	}
}

// mayPut returns the tenant's newest pointer in the queue, and whether another may follow without waiting: runners have taken
// it, and the tenant's backlog is empty. After an error it reports false.
func (b *RequestQueue) mayPut(ctx context.Context, tenant string) (newest broker.Message, free bool) {
	newest, taken, err := b.newest(ctx, tenant)
	if err != nil || !taken {
		return newest, false
	}
	_, err = b.conn.FirstOfLeader(ctx, b.conn.BacklogStream(), b.conn.TenantWildcard(broker.KindBacklog, tenant), 1)
	return newest, errors.Is(err, broker.ErrNotFound)
}

// newest returns the tenant's newest pointer in the queue, a zero one if it has none, and whether runners have taken it, and
// so all before it.
func (b *RequestQueue) newest(ctx context.Context, tenant string) (newest broker.Message, taken bool, err error) {
	newest, err = b.conn.LastOfLeader(ctx, b.conn.RequestsStream(), b.conn.TenantWildcard(broker.KindRequest, tenant))
	if errors.Is(err, broker.ErrNotFound) {
		return broker.Message{}, true, nil
	}
	if err != nil {
		return broker.Message{}, false, err
	}
	delivered, err := b.conn.Delivered(ctx, b.conn.RequestsStream(), broker.RunnerConsumer)
	return newest, err == nil && newest.Sequence <= delivered, err
}

// advance moves the tenant's oldest pointer from the backlog into the queue, if runners have taken all pointers that the
// tenant has there.
func (b *RequestQueue) advance(ctx context.Context, tenant string) error {
	for {
		oldest, err := b.conn.FirstOfLeader(ctx, b.conn.BacklogStream(), b.conn.TenantWildcard(broker.KindBacklog, tenant), 1)
		if errors.Is(err, broker.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		newest, taken, err := b.newest(ctx, tenant)
		if err != nil {
			return err
		}
		moved := present
		switch {
		case newest.Subject != "" && b.conn.BacklogSubject(newest.Subject) == oldest.Subject: // it was moved, and not deleted
		case !taken:
			return nil // the runner that takes it moves the next one
		default:
			if moved, err = b.move(ctx, tenant, oldest, newest.Sequence); err != nil {
				return err
			}
		}
		if moved == refused {
			continue // another process has moved one, so this ends
		}
		if err := b.conn.Remove(ctx, b.conn.BacklogStream(), oldest.Sequence); err != nil || moved == added {
			return err
		}
	}
}

// advanceBehind moves the next pointer of the tenant from the backlog into the queue, after a runner has taken a pointer
// with this sequence in the queue, and this one in the backlog (0 = it was not there). While a tenant has a backlog, the
// starts of its requests are a chain of these calls, so the usual case takes two round trips to the broker and deletes
// while the next runner is at work.
func (b *RequestQueue) advanceBehind(ctx context.Context, tenant string, taken, parked uint64) error {
	next, err := b.conn.FirstOfLeader(ctx, b.conn.BacklogStream(), b.conn.TenantWildcard(broker.KindBacklog, tenant), parked+1)
	if errors.Is(err, broker.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	moved, err := b.move(ctx, tenant, next, taken)
	if err != nil {
		return err
	}
	if moved == refused {
		return b.advanceOnce(ctx, tenant)
	}
	if err := b.conn.Remove(ctx, b.conn.BacklogStream(), next.Sequence); err != nil || moved == added {
		return err
	}
	return b.advanceOnce(ctx, tenant)
}

// move copies a pointer of the backlog into the queue, if the tenant's newest one there has the sequence newest.
func (b *RequestQueue) move(ctx context.Context, tenant string, waiting broker.Message, newest uint64) (outcome, error) {
	_, rest := b.conn.Tokens(waiting.Subject)
	subject, err := b.conn.Subject(append([]string{broker.KindRequest}, rest...)...)
	if err != nil {
		return refused, err
	}
	msg := &nats.Msg{Subject: subject, Header: withoutCondition(waiting.Header), Data: waiting.Data}
	msg.Header.Set(headerBacklog, strconv.FormatUint(waiting.Sequence, 10))
	return b.tryPut(ctx, tenant, msg, newest)
}

// AdvanceBacklog moves the oldest pointer of each tenant of a page of the backlog, if runners have taken all pointers of the
// tenant, and returns where the next page begins, 0 after the last one. It repairs what crashed processes have left, and
// removes copies.
func (b *RequestQueue) AdvanceBacklog(ctx context.Context, from uint64) (next uint64, err error) {
	messages, more, err := b.conn.Page(ctx, b.conn.BacklogStream(), b.conn.Wildcard(broker.KindBacklog), from, broker.FullPage())
	if err != nil {
		return from, err
	}
	tenants := map[string]bool{}
	for _, m := range messages {
		next = m.Sequence + 1
		_, rest := b.conn.Tokens(m.Subject)
		if tenants[rest[0]] {
			continue
		}
		tenants[rest[0]] = true
		if err := b.advance(ctx, rest[0]); err != nil {
			return next, err
		}
	}
	if !more {
		next = 0
	}
	return next, nil
}

// withoutCondition copies the headers that a pointer keeps wherever it waits.
func withoutCondition(h nats.Header) nats.Header {
	h = maps.Clone(h)
	delete(h, jetstream.ExpectedLastSubjSeqHeader)
	delete(h, jetstream.ExpectedLastSubjSeqSubjHeader)
	return h
}

// advances are the tenants whose backlog this process advances at this moment; true = it has to look once more. Calls at
// the same time would only refuse each other's writes. The zero value is ready.
type advances struct {
	mu      sync.Mutex
	tenants map[string]bool
}

// begin reports whether the caller is to advance the tenant's backlog. Otherwise another call does, and looks once more.
func (a *advances) begin(tenant string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, runs := a.tenants[tenant]; runs {
		a.tenants[tenant] = true
		return false
	}
	if a.tenants == nil {
		a.tenants = map[string]bool{}
	}
	a.tenants[tenant] = false
	return true
}

// end reports whether the caller may stop: no call of begin has asked for another look since the last call of begin or end.
func (a *advances) end(tenant string, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tenants[tenant] && err == nil {
		a.tenants[tenant] = false
		return false
	}
	delete(a.tenants, tenant)
	return true
}

// advanceOnce calls advance, once at a time for each tenant.
func (b *RequestQueue) advanceOnce(ctx context.Context, tenant string) error {
	if !b.advances.begin(tenant) {
		return nil
	}
	for {
		err := b.advance(ctx, tenant)
		if b.advances.end(tenant, err) {
			return err
		}
	}
}

// retryAdvance calls advance until it succeeds or its time is over.
func (b *RequestQueue) retryAdvance(ctx context.Context, tenant string, advance func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, advanceWait)
	defer cancel()
	for {
		err := advance(ctx)
		if err == nil {
			return nil
		}
		if !broker.Retryable(err) || broker.Pause(ctx, broker.RetryPause) != nil {
			return fmt.Errorf("move the next request of tenant %s into the queue: %w", tenant, err)
		}
	}
}

// Advancing moves the next pointer of a tenant into the queue while handle works on the one that was taken, which is not
// acknowledged before: if the process dies, the pointer is delivered again, and its next runner does both. What the broker
// does not allow within advanceWait is left to [Bus.AdvanceBacklog].
func (b *RequestQueue) Advancing(handle Handle[record.Start]) broker.HandleMessage[record.Start] {
	return func(ctx context.Context, s record.Start, msg jetstream.Msg) error {
		taken, parked := sequences(msg)
		var next sync.WaitGroup
		defer next.Wait()
		next.Go(func() {
			err := b.retryAdvance(ctx, s.Tenant, func(ctx context.Context) error {
				return b.advanceBehind(ctx, s.Tenant, taken, parked)
			})
			if err != nil {
				slog.WarnContext(ctx, "a backlog did not advance", "tenant", s.Tenant, "error", err)
			}
		})
		return handle(ctx, s)
	}
}

// sequences returns the sequence of a pointer in the queue, and the one that it had in the backlog; 0 = it was not there.
func sequences(msg jetstream.Msg) (taken, parked uint64) {
	if meta, err := msg.Metadata(); err == nil {
		taken = meta.Sequence.Stream
	}
	parked, _ = strconv.ParseUint(msg.Headers().Get(headerBacklog), 10, 64) // without the header it is 0
	return taken, parked
}
