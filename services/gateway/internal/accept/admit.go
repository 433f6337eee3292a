package accept

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/services/gateway/internal/access"
)

// admit says whether a may become the next request behind thread: the streams have room, nothing runs there, and the
// actions that a brings results for are open.
func (d *Desk) admit(ctx context.Context, thread bus.ThreadRecord, a command.Accepted) error {
	if err := d.room.check(); err != nil {
		return err
	}
	wanted := actionIDs(a.Request)
	if thread.ThreadID == "" {
		if len(wanted) > 0 {
			return fault.New(fault.InvalidActionID, "a new thread has no actions; send the threadId that asked for %s", wanted[0])
		}
		return nil
	}
	running, err := d.running(ctx, a.Tenant, thread)
	if err != nil {
		return err
	}
	if running {
		return busy(thread, wanted)
	}
	return d.checkActions(ctx, a.Tenant, thread, wanted)
}

// running reports whether the thread's last request has not ended. One that nobody has begun may have lost its pointer,
// when its gateway died between two steps: it gets another.
func (d *Desk) running(ctx context.Context, tenant string, thread bus.ThreadRecord) (bool, error) {
	log := bus.LogID{Tenant: tenant, RequestID: thread.RequestID}
	last, err := d.bus.Last(ctx, log)
	if err == nil {
		return !last.Terminal(), nil
	}
	if !errors.Is(err, bus.ErrNotFound) {
		return false, err
	}
	accepted, err := d.bus.Accepted(ctx, log)
	if errors.Is(err, bus.ErrNotFound) {
		return false, nil // the stream has forgotten it, so it has ended
	}
	if err != nil {
		return false, err
	}
	return true, d.bus.Start(ctx, accepted, thread.Index)
}

// busy says which request runs. When that one resolves an action that is wanted here too, the action is the reason.
func busy(thread bus.ThreadRecord, wanted []string) error {
	for _, actionID := range wanted {
		if slices.Contains(thread.Resolves, actionID) {
			return fault.New(fault.InvalidActionID, "action %s is resolved already, by request %s", actionID, thread.RequestID)
		}
	}
	f := fault.New(fault.ThreadBusy, "request %s runs on this thread; wait for it to end, or abort it", thread.RequestID)
	f.RequestID = thread.RequestID
	return f
}

// Delete removes a thread on which nothing runs, or says why not.
func (d *Desk) Delete(ctx context.Context, tenant string, thread bus.ThreadRecord) error {
	running, err := d.running(ctx, tenant, thread)
	if err != nil {
		return access.Unavailable(err)
	}
	if running {
		return busy(thread, nil)
	}
	gone := thread.Thread
	gone.Deleted, gone.Resolves = true, nil
	_, err = d.bus.AdvanceThread(ctx, tenant, gone, thread.Sequence)
	if errors.Is(err, bus.ErrConflict) {
		return fault.New(fault.ThreadBusy, "a request came in on this thread just now; wait for it to end, or abort it")
	}
	if err != nil {
		return access.Unavailable(fmt.Errorf("delete thread %s: %w", thread.ThreadID, err))
	}
	return nil
}
