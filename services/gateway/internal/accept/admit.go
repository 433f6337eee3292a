package accept

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/query"
	"github.com/agentbus/agentbus/services/gateway/internal/access"
)

// errPlaced says that a request stands on its thread already.
var errPlaced = errors.New("the request has its place on the thread")

// admit says whether a may become the next request behind thread: the streams have room, nothing runs there or a may
// wait, and the actions that a brings results for are open. See command.Thread for behind.
func (d *Desk) admit(ctx context.Context, c Call, thread bus.ThreadRecord, a command.Accepted) (behind int, err error) {
	if err := d.room.check(); err != nil {
		return 0, err
	}
	wanted := actionIDs(a.Request)
	if thread.RequestID == "" { // the thread begins, or is a session that nobody has asked anything yet
		if len(wanted) > 0 {
			return 0, fault.New(fault.InvalidActionID, "a new thread has no actions; send the threadId that asked for %s", wanted[0])
		}
		return 0, nil
	}
	line, err := d.line(ctx, a.Tenant, thread)
	if err != nil {
		return 0, err
	}
	if slices.ContainsFunc(line, func(p place) bool { return p.RequestID == a.RequestID }) {
		return 0, errPlaced
	}
	if len(line) > 0 && c.OnBusy == config.OnBusyInterrupt && len(wanted) == 0 {
		if err := d.interrupt(ctx, line, a); err != nil {
			return 0, err
		}
		line = nil
	}
	if len(line) == 0 {
		return 0, d.checkActions(ctx, a.Tenant, thread, wanted)
	}
	if err := d.urge(ctx, line); err != nil {
		return 0, err
	}
	return wait(c, line, thread.Index+1, wanted)
}

// wait says how far behind the first of the line the request with that index stands, or why it may not wait. One that
// brings action results never does: what it answers would be another request's by then.
func wait(c Call, line []place, index int, wanted []string) (behind int, err error) {
	first := line[0]
	for _, actionID := range wanted {
		for _, one := range line {
			if slices.Contains(one.Resolves, actionID) {
				return 0, fault.New(fault.InvalidActionID, "action %s is resolved already, by request %s", actionID, one.RequestID)
			}
		}
	}
	behind = index - first.Index
	switch {
	case c.OnBusy != config.OnBusyQueue || len(wanted) > 0:
		return 0, busy(line, "request %s runs on this thread; wait for it to end, or abort it", first.RequestID)
	case len(line) > c.Queue || behind > maxLine:
		return 0, busy(line, "request %s runs on this thread, and as many wait as may; wait for it to end, or abort it", first.RequestID)
	}
	return behind, nil
}

// Delete removes a thread on which nothing runs, or says why not.
func (d *Desk) Delete(ctx context.Context, tenant string, thread bus.ThreadRecord) error {
	line, err := d.line(ctx, tenant, thread)
	if err == nil {
		err = d.urge(ctx, line)
	}
	if err != nil {
		return access.Unavailable(err)
	}
	if len(line) > 0 {
		return busy(line, "request %s runs on this thread; wait for it to end, or abort it", line[0].RequestID)
	}
	gone := thread.Thread
	gone.Deleted, gone.Resolves, gone.Behind, gone.Index = true, nil, 0, max(gone.Index, 0)
	gone.Ended = d.sumUp(ctx, query.ThreadRef{Tenant: tenant, ThreadID: thread.ThreadID})
	_, err = d.bus.AdvanceThread(ctx, tenant, gone, thread.Sequence)
	if errors.Is(err, bus.ErrConflict) {
		return fault.New(fault.ThreadBusy, "a request came in on this thread just now; wait for it to end, or abort it")
	}
	if err != nil {
		return access.Unavailable(fmt.Errorf("delete thread %s: %w", thread.ThreadID, err))
	}
	if err := d.forget(ctx, tenant, thread.ThreadID); err != nil { // the thread is gone all the same
		d.log.WarnContext(ctx, "what is noted on a deleted thread stays in the stream", "threadId", thread.ThreadID, "error", err)
	}
	return nil
}

// forget makes the last word on a deleted thread that nothing is noted on it, also where a change was under way.
func (d *Desk) forget(ctx context.Context, tenant, threadID string) error {
	for range attempts {
		noted, err := d.bus.Session(ctx, tenant, threadID)
		if errors.Is(err, bus.ErrNotFound) || noted.Deleted {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = d.bus.SwapSession(ctx, tenant, command.Session{
			ThreadID: threadID, Owner: noted.Owner, AgentID: noted.AgentID, CreatedAt: noted.CreatedAt,
			UpdatedAt: d.bus.Now().UTC(), Deleted: true,
		}, noted)
		if !errors.Is(err, bus.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("delete session %s: %w", threadID, bus.ErrConflict)
}
