package responder

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/history/internal/projector"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// interval is how often the store is asked while a question waits for what another process stores. What this process
// stores wakes the question at once.
const interval = 50 * time.Millisecond

// need says how far the store must have come before a question may be answered.
type need struct {
	tenant   string
	onThread bool              // whether requests must have their place on the thread
	next     map[string]uint64 // by request: n of the event after the last that counts
}

// seeThread waits until the store has a thread up to the current end of its log: every request below before, and the
// newest of those as far as it has run. A thread without messages in the stream is stored already, has no request yet,
// or does not exist.
func (a *Answerer) seeThread(ctx context.Context, ref historyapi.ThreadRef, before int) error {
	if err := checkIDs(ref.Tenant, ref.ThreadID); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, historyapi.ProjectionTimeout)
	defer cancel()
	newest, err := a.bus.Thread(ctx, ref.Tenant, ref.ThreadID)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return a.seeSession(ctx, ref)
	case err != nil:
		return noLog(err)
	case newest.Deleted:
		return noThread(ref.ThreadID)
	}
	n := need{tenant: ref.Tenant, onThread: true, next: map[string]uint64{}}
	if newest.Index < before {
		if err := a.demand(ctx, &n, newest.RequestID); err != nil {
			return err
		}
		before = newest.Index
	}
	ended, err := a.store.Ended(ctx, ref.Tenant, ref.ThreadID, before)
	if err != nil {
		return err
	}
	if ended < before {
		if err := a.demandEarlier(ctx, &n, ref.ThreadID, before); err != nil {
			return err
		}
	}
	return a.await(ctx, n)
}

// seeSession waits until the store holds what is noted on a thread now.
func (a *Answerer) seeSession(ctx context.Context, ref historyapi.ThreadRef) error {
	ctx, cancel := context.WithTimeout(ctx, historyapi.ProjectionTimeout)
	defer cancel()
	newest, err := a.bus.Session(ctx, ref.Tenant, ref.ThreadID)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return nil
	case err != nil:
		return noLog(err)
	case newest.Deleted:
		return noThread(ref.ThreadID)
	}
	return a.until(ctx, interval, func() (bool, error) {
		t, err := a.store.Thread(ctx, ref.Tenant, ref.ThreadID)
		switch {
		case errors.Is(err, store.ErrDeleted):
			return true, nil
		case errors.Is(err, store.ErrNotFound):
			return false, nil
		}
		return err == nil && t.Record != nil && !t.Record.UpdatedAt.Before(newest.UpdatedAt), err
	})
}

// The wait for everything.
const (
	// settled is how often the broker is asked whether everything is stored.
	settled = 10 * time.Millisecond
	// heldUp is how long a question waits for entries that the database has refused before: they may never be stored.
	heldUp = time.Second
)

// seeAll waits until the store holds everything that the stream holds now.
func (a *Answerer) seeAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, historyapi.ProjectionTimeout)
	defer cancel()
	head, err := a.bus.LastSequence(ctx)
	if err != nil {
		return noLog(err)
	}
	begun := time.Now()
	return a.until(ctx, settled, func() (bool, error) {
		projected, err := a.bus.Projected(ctx)
		if err != nil {
			return false, noLog(err)
		}
		if projected.Through < head && (projected.Again == 0 || time.Since(begun) <= heldUp) {
			return false, nil
		}
		err = a.progress.Check(ctx)
		if _, lacks := errors.AsType[*projector.Behind](err); lacks {
			return false, nil
		}
		return err == nil, err
	})
}

// demand asks for a request as far as its log goes now.
func (a *Answerer) demand(ctx context.Context, n *need, requestID string) error {
	last, err := a.bus.Last(ctx, bus.LogID{Tenant: n.tenant, RequestID: requestID})
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return noLog(err)
	}
	n.next[requestID] = last.Next()
	return nil
}

// demandEarlier demands the requests below an index whose end is not in the store. Those that have expired from the
// stream too will never arrive, and are skipped.
func (a *Answerer) demandEarlier(ctx context.Context, n *need, threadID string, before int) error {
	ended, open := map[string]bool{}, map[string]bool{}
	stored, err := a.store.Requests(ctx, n.tenant, threadID, store.Position{}, before)
	if err != nil {
		return err
	}
	for _, r := range stored {
		if r.EndedAt.IsZero() {
			open[r.RequestID] = r.Index < before
		} else {
			ended[r.RequestID] = true
		}
	}
	for record, err := range a.bus.ThreadRecords(ctx, n.tenant, threadID, 0) {
		if err != nil {
			return noLog(err)
		}
		if record.Index < before && !record.Deleted && !ended[record.RequestID] {
			open[record.RequestID] = true
		}
	}
	maps.DeleteFunc(open, func(_ string, wanted bool) bool { return !wanted })
	for requestID := range open {
		if err := a.demand(ctx, n, requestID); err != nil {
			return err
		}
	}
	return nil
}

// seeRequest waits until the store holds a request as far as its log goes now.
func (a *Answerer) seeRequest(ctx context.Context, ref historyapi.RequestRef) error {
	if err := checkIDs(ref.Tenant, ref.RequestID); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, historyapi.ProjectionTimeout)
	defer cancel()
	accepted, err := a.bus.Accepted(ctx, bus.LogID{Tenant: ref.Tenant, RequestID: ref.RequestID})
	if errors.Is(err, bus.ErrNotFound) {
		return nil // forgotten, and stored long ago; or it does not exist
	}
	if err != nil {
		return noLog(err)
	}
	thread, err := a.bus.Thread(ctx, ref.Tenant, accepted.ThreadID)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return noLog(err)
	}
	if thread.Deleted {
		return noRequest(ref.RequestID)
	}
	n := need{
		tenant: ref.Tenant, next: map[string]uint64{},
		onThread: err == nil && thread.RequestID == ref.RequestID, // others may have lost the thread to it
	}
	if err := a.demand(ctx, &n, ref.RequestID); err != nil {
		return err
	}
	return a.await(ctx, n)
}

// await returns when the store has what is needed, or apierr.Unavailable when ctx ends first.
func (a *Answerer) await(ctx context.Context, n need) error {
	return a.until(ctx, interval, func() (bool, error) {
		for requestID, next := range n.next {
			seen, err := a.seen(ctx, n, requestID, next)
			if err != nil {
				return false, err
			}
			if seen {
				delete(n.next, requestID)
			}
		}
		return len(n.next) == 0, nil
	})
}

// until looks, whenever more has been stored and at least so often, until it is so, or gives apierr.Unavailable when ctx
// ends first.
func (a *Answerer) until(ctx context.Context, often time.Duration, isSo func() (bool, error)) error {
	for {
		changed := a.recorder.Changed() // before looking, so that nothing is missed
		so, err := isSo()
		if err != nil && ctx.Err() == nil || so {
			return err
		}
		a.recorder.Hurry()
		timer := time.NewTimer(often)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return a.behind()
		}
		timer.Stop()
	}
}

func (a *Answerer) seen(ctx context.Context, n need, requestID string, next uint64) (bool, error) {
	r, err := a.store.Request(ctx, n.tenant, requestID)
	switch {
	case errors.Is(err, store.ErrDeleted):
		return true, nil // there is nothing left to wait for
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case r.Next < next || n.onThread && r.Index < 0:
		return false, nil
	case r.Accepted:
		return true, nil
	}
	_, err = a.bus.Accepted(ctx, bus.LogID{Tenant: n.tenant, RequestID: requestID})
	if errors.Is(err, bus.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, noLog(err)
	}
	return false, nil
}

func noLog(err error) error {
	return apierr.Wrap(err, apierr.Unavailable, "history cannot see how far the log has come; try again")
}

// behind returns the error of a query for which the database lacks data.
func (a *Answerer) behind() error {
	if lacks, ok := errors.AsType[*projector.Behind](a.progress.Ready()); ok {
		return rebuilding(lacks)
	}
	f := apierr.New(apierr.Unavailable, "history has not caught up with the log yet; try again")
	f.RetryAfter = time.Second
	return f
}

func rebuilding(lacks *projector.Behind) error {
	f := apierr.New(apierr.Unavailable, "%s; try again", lacks.Error())
	f.RetryAfter = time.Second
	return f
}

// complete returns an error when the database lacks a part of what the stream holds. A question that found nothing, or that
// lists what there is, must not be answered then.
func (a *Answerer) complete(ctx context.Context) error {
	err := a.progress.Check(ctx)
	if lacks, ok := errors.AsType[*projector.Behind](err); ok {
		return rebuilding(lacks)
	}
	return err
}
