package toolexecutor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
)

// Evidence is where the approval of a call must be found.
type Evidence interface {
	ThreadRecords(ctx context.Context, tenant, threadID string, after uint64) iter.Seq2[bus.ThreadRecord, error]
	Accepted(ctx context.Context, log bus.LogID) (command.Accepted, error)
	Read(ctx context.Context, log bus.LogID, from uint64) iter.Seq2[event.Frame, error]
}

// approval is whether a person must allow j: as its agent has it, and else its tool. That an agent may do without is
// believed of the one that the gateway recorded.
func (e *Executor) approval(ctx context.Context, j job) (tool.Approval, error) {
	if begun, err := e.begun(ctx, j); err != nil || begun {
		return tool.ApprovalNever, err
	}
	set := e.deps.Config.Agents[j.AgentID].Approval.Of(j.spec.Name, j.spec.Approval)
	if set == j.spec.Approval || set == tool.ApprovalAlways {
		return set, nil
	}
	a, err := e.deps.Bus.Accepted(ctx, j.log)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return j.spec.Approval, nil
	case err != nil:
		return "", err
	case a.AgentID != j.AgentID:
		return j.spec.Approval, nil
	default:
		return set, nil
	}
}

// begun reports whether j is a call of an agent that works already: then it was allowed, or never had to be.
func (e *Executor) begun(ctx context.Context, j job) (bool, error) {
	if _, ok := config.AgentOfTool(j.Tool); !ok {
		return false, nil
	}
	_, err := e.deps.Bus.Thread(ctx, j.Tenant, command.ChildThread(j.ThreadID, j.ToolCallID))
	if errors.Is(err, bus.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

const gone = "its record is no longer kept"

// prove reports why j's approval is none, "" when it is one. An approval is evidence for one call: a request of the
// thread allowed the action, as the gateway recorded it when it had checked who asks, and the request before that one
// had announced the action for this call of this tool with these arguments. What the caller says of it counts nothing.
func (e *Executor) prove(ctx context.Context, j job) (why string, err error) {
	asked, allowed, err := e.resolution(ctx, j)
	if err != nil {
		return "", err
	}
	if allowed == "" {
		return "nobody has acted on it", nil
	}
	a, err := e.deps.Bus.Accepted(ctx, bus.LogID{Tenant: j.Tenant, RequestID: allowed})
	if errors.Is(err, bus.ErrNotFound) {
		return gone, nil
	}
	if err != nil {
		return "", err
	}
	if !allows(a, j.Approved) {
		return "it was not given", nil
	}
	if asked == "" {
		return e.archived(ctx, j, allowed)
	}
	why, err = e.announced(ctx, j, asked)
	if why == gone {
		return e.archived(ctx, j, allowed)
	}
	return why, err
}

// resolution finds the request that brought a result for the action, and the one before it on the thread.
func (e *Executor) resolution(ctx context.Context, j job) (asked, allowed string, err error) {
	before := ""
	for r, err := range e.deps.Bus.ThreadRecords(ctx, j.Tenant, j.ThreadID, 0) {
		if err != nil {
			return "", "", err
		}
		if slices.Contains(r.Resolves, j.Approved) {
			asked, allowed = before, r.RequestID
		}
		before = r.RequestID
	}
	return asked, allowed, nil
}

func allows(a command.Accepted, actionID string) bool {
	return slices.ContainsFunc(a.Request.Context.ActionResults, func(r event.ActionResult) bool {
		return r.ActionID == actionID && r.Status == event.ActionSuccess
	})
}

// announcedIn lists the actions that a request announces; none when its log is no longer kept.
func announcedIn(ctx context.Context, b Evidence, log bus.LogID) ([]event.Continuation, error) {
	var actions []event.Continuation
	for f, err := range b.Read(ctx, log, 0) {
		if errors.Is(err, bus.ErrForgotten) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for line := range f.Each() {
			if line.Name != event.NameContinuation {
				continue
			}
			told, err := event.Decode(line.JSON)
			if err != nil {
				return nil, fmt.Errorf("event %d of request %s: %w", line.N, log.RequestID, err)
			}
			if c, ok := told.Body.(event.Continuation); ok {
				actions = append(actions, c)
			}
		}
	}
	return actions, nil
}

// announced reports why the action that a request announced is not for this call.
func (e *Executor) announced(ctx context.Context, j job, requestID string) (why string, err error) {
	for f, err := range e.deps.Bus.Read(ctx, bus.LogID{Tenant: j.Tenant, RequestID: requestID}, 0) {
		if errors.Is(err, bus.ErrForgotten) {
			return gone, nil
		}
		if err != nil {
			return "", err
		}
		for line := range f.Each() {
			if line.Name != event.NameContinuation {
				continue
			}
			told, err := event.Decode(line.JSON)
			if err != nil {
				return "", fmt.Errorf("event %d of request %s: %w", line.N, requestID, err)
			}
			if c, ok := told.Body.(event.Continuation); ok && c.ActionID == j.Approved {
				return j.differs(c), nil
			}
		}
	}
	return "nobody was asked for it", nil
}

func (j job) differs(c event.Continuation) string {
	p := c.Payload
	if c.Kind != event.ContinueApproval || p.ToolCallID != j.ToolCallID || p.Tool != j.Tool || p.ArgsHash != j.ArgsHash {
		return "it was for another call"
	}
	return ""
}
