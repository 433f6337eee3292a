package admission

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/rediscache"
)

// clockTolerance is how long after its expiry an action may still be resolved, because clocks differ.
const clockTolerance = 5 * time.Second

// checkActions returns an error unless the action of every result is open: the thread's last request announced it, and it
// has not expired. Actions of earlier requests are closed by a result or by a newer message; those that are still needed
// were announced again. A client tool or an input that has succeeded must have a result.
func (d *Acceptor) checkActions(ctx context.Context, tenant string, thread bus.ThreadRecord, results []event.ActionResult) error {
	if len(results) == 0 {
		return nil
	}
	wanted := make([]string, len(results))
	for i, r := range results {
		wanted[i] = r.ActionID
	}
	open, err := d.openActions(ctx, tenant, thread, wanted)
	if err != nil {
		return err
	}
	for i, actionID := range wanted {
		action, ok := open[actionID]
		if !ok {
			return apierr.New(apierr.InvalidActionID, "action %s is not open on this thread: it is resolved, superseded or unknown", actionID)
		}
		if !action.ExpiresAt.IsZero() && d.bus.Now().Sub(action.ExpiresAt) > clockTolerance {
			return apierr.New(apierr.InvalidActionID, "action %s expired at %s; send a new message to continue",
				actionID, action.ExpiresAt.Format(time.RFC3339))
		}
		if results[i].Status == event.ActionSuccess && len(results[i].Result) == 0 && action.Kind != event.ContinueApproval {
			return apierr.New(apierr.InvalidMessageFormat,
				"the result of action %s, of kind %q, is missing; send it as \"result\", any JSON, or another status", actionID, action.Kind)
		}
	}
	return nil
}

// OpenActions returns the actions that can be resolved on a thread, by id: those that its newest request announced before it
// ended, without the expired ones.
func (d *Acceptor) OpenActions(ctx context.Context, tenant string, thread bus.ThreadRecord) (map[string]rediscache.Action, error) {
	none := map[string]rediscache.Action{}
	if thread.RequestID == "" {
		return none, nil
	}
	last, err := d.bus.Last(ctx, bus.LogID{Tenant: tenant, RequestID: thread.RequestID})
	switch {
	case errors.Is(err, bus.ErrNotFound): // the request has not begun, or its log is in history alone
		return none, nil
	case err != nil:
		return nil, err
	case !last.Terminal() || !slices.Contains(last.Names, event.NameDone):
		return none, nil
	}
	open, err := d.announcedActions(ctx, tenant, thread)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(open, func(_ string, a rediscache.Action) bool {
		return !a.ExpiresAt.IsZero() && d.bus.Now().After(a.ExpiresAt)
	})
	return open, nil
}

// openActions returns the wanted actions that the thread's last request announced: from Redis if it has all of them,
// otherwise from the log.
func (d *Acceptor) openActions(
	ctx context.Context, tenant string, thread bus.ThreadRecord, wanted []string,
) (map[string]rediscache.Action, error) {
	open := make(map[string]rediscache.Action, len(wanted))
	for _, actionID := range wanted {
		action, found, err := d.state.Action(ctx, tenant, actionID)
		if err != nil || !found || action.ThreadID != thread.ThreadID || action.RequestID != thread.RequestID {
			return d.announcedActions(ctx, tenant, thread)
		}
		open[actionID] = action
	}
	return open, nil
}

// announcedActions reads the actions from the log of the thread's last request, and stores them in Redis again.
func (d *Acceptor) announcedActions(ctx context.Context, tenant string, thread bus.ThreadRecord) (map[string]rediscache.Action, error) {
	open := map[string]rediscache.Action{}
	collect := func(f event.Frame) error {
		for line := range f.Each() {
			if line.Name != event.NameContinuation {
				continue
			}
			e, err := event.Decode(line.JSON)
			if err != nil {
				return err
			}
			if c, ok := e.Body.(event.Continuation); ok {
				open[c.ActionID] = rediscache.Action{
					Tenant: tenant, ActionID: c.ActionID, ThreadID: thread.ThreadID, RequestID: thread.RequestID,
					Kind: c.Kind, Payload: c.Payload, ExpiresAt: c.ExpiresAt,
				}
			}
		}
		return nil
	}
	if err := d.eachFrame(ctx, bus.LogID{Tenant: tenant, RequestID: thread.RequestID}, collect); err != nil {
		return nil, err
	}
	again := make([]rediscache.Action, 0, len(open))
	for _, action := range open {
		again = append(again, action)
	}
	if err := d.state.PutActions(ctx, again...); err != nil {
		d.log.DebugContext(ctx, "actions are not cached", "error", err)
	}
	return open, nil
}

// eachFrame passes a finished log to visit: from the stream, or from history for the part that has expired.
func (d *Acceptor) eachFrame(ctx context.Context, log bus.LogID, visit func(event.Frame) error) error {
	n := uint64(0)
	for f, err := range d.bus.Read(ctx, log, 0) {
		if errors.Is(err, bus.ErrExpired) {
			break
		}
		if err != nil {
			return err
		}
		if err := visit(f); err != nil {
			return err
		}
		if n = f.Next(); f.Terminal() {
			return nil
		}
	}
	for {
		page, err := d.history.Frames(ctx, historyapi.FramesQuery{
			RequestRef: historyapi.RequestRef{Tenant: log.Tenant, RequestID: log.RequestID}, From: n,
		})
		if err != nil || len(page.Frames) == 0 {
			return err
		}
		for _, f := range page.Frames {
			if err := visit(f.Event()); err != nil {
				return err
			}
			n = f.Event().Next()
		}
	}
}
