package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/pkg/threadqueue"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
)

// admit implements threadqueue.Admission: a may join its thread if the streams are not nearly full, if no request runs
// there or a may wait, and if the actions that it resolves are open.
func (d *Acceptor) admit(
	ctx context.Context, c Call, newest bus.ThreadRecord, entries []threadqueue.Entry, a record.Accepted,
) (behind int, err error) {
	if err := d.backpressure.check(); err != nil {
		return 0, err
	}
	wanted := threadqueue.ActionIDs(a.Request)
	if newest.RequestID == "" { // the thread is new, or a session without requests
		if len(wanted) > 0 {
			return 0, apierr.New(apierr.InvalidActionID, "a new thread has no actions; send the threadId that asked for %s", wanted[0])
		}
		return 0, nil
	}
	if len(entries) > 0 && c.OnBusy == config.OnBusyInterrupt && len(wanted) == 0 {
		if err := d.interrupt(ctx, entries, a); err != nil {
			return 0, err
		}
		entries = nil
	}
	if len(entries) == 0 {
		return 0, d.checkActions(ctx, a.Tenant, newest, a.Request.Context.ActionResults)
	}
	if _, err := d.queue.EnsureFirst(ctx, entries); err != nil {
		return 0, err
	}
	return queueBehind(c, newest, entries, wanted)
}

// queueBehind returns the distance of the next request from the first of the entries, or why it may not wait. A
// request with action results never waits, because its actions would be closed by then.
func queueBehind(c Call, newest bus.ThreadRecord, entries []threadqueue.Entry, wanted []string) (behind int, err error) {
	first := entries[0]
	for _, actionID := range wanted {
		for _, entry := range entries {
			if slices.Contains(entry.Resolves, actionID) {
				return 0, apierr.New(apierr.InvalidActionID, "action %s is resolved already, by request %s", actionID, entry.RequestID)
			}
		}
	}
	behind = threadqueue.Behind(newest, entries)
	switch {
	case c.OnBusy != config.OnBusyQueue || len(wanted) > 0:
		return 0, busy(entries, "request %s runs on this thread; wait for it to end, or abort it", first.RequestID)
	case len(entries) > c.Queue || behind > threadqueue.MaxBehind:
		return 0, busy(entries, "request %s runs on this thread, and as many wait as may; wait for it to end, or abort it", first.RequestID)
	}
	return behind, nil
}

// Running returns the record of the request that runs on a thread or may start, or the newest record if all have ended.
func (d *Acceptor) Running(ctx context.Context, tenant string, newest bus.ThreadRecord) (bus.ThreadRecord, error) {
	entries, err := d.queue.Entries(ctx, tenant, newest)
	if err != nil || len(entries) == 0 {
		return newest, err
	}
	return entries[0].ThreadRecord, nil
}

// Delete deletes a thread on which no request runs, or returns an error.
func (d *Acceptor) Delete(ctx context.Context, tenant string, thread bus.ThreadRecord) error {
	entries, err := d.queue.Entries(ctx, tenant, thread)
	if err == nil {
		_, err = d.queue.EnsureFirst(ctx, entries)
	}
	if err != nil {
		return authz.Unavailable(err)
	}
	if len(entries) > 0 {
		return busy(entries, "request %s runs on this thread; wait for it to end, or abort it", entries[0].RequestID)
	}
	gone := thread.Thread
	gone.Deleted, gone.Resolves, gone.Behind, gone.Index = true, nil, 0, max(gone.Index, 0)
	gone.Ended = d.summary(ctx, historyapi.ThreadRef{Tenant: tenant, ThreadID: thread.ThreadID})
	_, err = d.bus.AdvanceThread(ctx, tenant, gone, thread.Sequence)
	if errors.Is(err, bus.ErrConflict) {
		return apierr.New(apierr.ThreadBusy, "a request came in on this thread just now; wait for it to end, or abort it")
	}
	if err != nil {
		return authz.Unavailable(fmt.Errorf("delete thread %s: %w", thread.ThreadID, err))
	}
	if err := d.bus.DeleteTaskPushes(ctx, tenant, thread.ThreadID); err != nil { // they expire, and nothing is sent to them
		d.log.WarnContext(ctx, "the receivers of a deleted thread stay in the bucket", telemetry.LogThread, thread.ThreadID, "error", err)
	}
	if err := d.clearSession(ctx, tenant, thread.ThreadID); err != nil { // the thread is deleted in any case
		d.log.WarnContext(ctx, "what is noted on a deleted thread stays in the stream", telemetry.LogThread, thread.ThreadID, "error", err)
	}
	return nil
}

// clearSession appends an empty session record to a deleted thread, also if a change of the session is in progress.
func (d *Acceptor) clearSession(ctx context.Context, tenant, threadID string) error {
	for range attempts {
		noted, err := d.bus.Session(ctx, tenant, threadID)
		if errors.Is(err, bus.ErrNotFound) || noted.Deleted {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = d.bus.UpdateSession(ctx, tenant, record.Session{
			ThreadID: threadID, Owner: noted.Owner, AgentID: noted.AgentID, CreatedAt: noted.CreatedAt,
			UpdatedAt: d.bus.Now().UTC(), Deleted: true,
		}, noted)
		if !errors.Is(err, bus.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("delete session %s: %w", threadID, bus.ErrConflict)
}
