package reaper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
)

// quietTime is how long a request must be without events before a sweep reads it, and the tolerance beyond its time limit.
func (r *Reaper) quietTime() time.Duration { return 2 * r.deps.Every }

// since is the time that has passed since t, both by the broker's clock.
func (r *Reaper) since(t time.Time) time.Duration { return r.deps.Bus.Now().Sub(t) }

// sweep checks requests that have not ended and are quiet.
func (r *Reaper) sweep(ctx context.Context) {
	r.advance(ctx)
	for range sweepPages {
		page, err := r.deps.History.Open(ctx, historyapi.OpenQuery{
			Before: r.deps.Bus.Now().Add(-r.quietTime()).UTC(), Limit: pageSize, Cursor: r.cursor,
		})
		if err != nil {
			r.failed(ctx, "ask for open requests", err)
			r.cursor = ""
			return
		}
		for _, request := range page.Requests {
			if err := r.check(ctx, request); err != nil {
				r.failed(ctx, "check request "+request.RequestID, err)
			}
			if ctx.Err() != nil {
				return
			}
		}
		if r.cursor = page.NextCursor; r.cursor == "" {
			return
		}
	}
}

// advance sends the pointers of a page of the backlog.
func (r *Reaper) advance(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var err error
	if r.backlogCursor, err = r.deps.Bus.AdvanceBacklog(within, r.backlogCursor); err != nil {
		r.failed(ctx, "advance the backlog", err)
	}
}

// check checks one request. History may lag, so the log is read.
func (r *Reaper) check(ctx context.Context, open historyapi.OpenRequest) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	log := bus.LogID{Tenant: open.Tenant, RequestID: open.RequestID}
	last, err := r.deps.Bus.Last(ctx, log)
	begun := err == nil
	switch {
	case begun && (last.Terminal() || r.since(last.Time) < r.quietTime()):
		return nil
	case err != nil && !errors.Is(err, bus.ErrNotFound):
		return err
	}
	accepted, err := r.deps.Bus.Accepted(ctx, log)
	if errors.Is(err, bus.ErrNotFound) {
		return nil // it has expired from the stream, and its log can no longer be written
	}
	if err != nil {
		return err
	}
	abort, err := r.deps.Bus.Aborted(ctx, log)
	switch {
	case err == nil && (!begun || r.since(abort.At) > abortGrace):
		return r.abort(ctx, accepted, abort)
	case err != nil && !errors.Is(err, bus.ErrNotFound):
		return err
	case !begun:
		return r.countPointer(ctx)(r.deps.Queue.Next(ctx, log.Tenant, open.ThreadID, -1))
	}
	late, err := r.late(ctx, open, log)
	if err != nil {
		return err
	}
	if !late {
		return r.countPointer(ctx)(r.deps.Queue.EnsurePointer(ctx, accepted))
	}
	return r.conclude(ctx, TimedOut, accepted, timeoutError(accepted, r.deps.Requests.Time(accepted.AgentID)))
}

// countPointer counts a pointer that was sent.
func (r *Reaper) countPointer(ctx context.Context) func(sent bool, err error) error {
	return func(sent bool, err error) error {
		if sent {
			r.deps.Count(ctx, Pointed)
		}
		return err
	}
}

func timeoutError(a record.Accepted, limit time.Duration) error {
	return apierr.New(apierr.StreamTimeout, "agent %s did not finish within %s; try again", a.AgentID, limit)
}

// late reports whether a request that has begun is past its time: its runner, if it had one, would have ended it.
func (r *Reaper) late(ctx context.Context, open historyapi.OpenRequest, log bus.LogID) (bool, error) {
	limit := r.deps.Requests.Time(open.AgentID) + r.quietTime()
	if r.since(open.CreatedAt) < limit {
		return false, nil // it started later than that
	}
	for first, err := range r.deps.Bus.Read(ctx, log, 0) {
		if err != nil {
			return false, fmt.Errorf("start of its log: %w", err)
		}
		return r.since(first.Time) > limit, nil
	}
	return false, nil
}
