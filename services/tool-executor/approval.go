package toolexecutor

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
)

// Evidence is where the approval of a call must be found.
type Evidence interface {
	ThreadRecords(ctx context.Context, tenant, threadID string, after uint64) iter.Seq2[bus.ThreadRecord, error]
	Accepted(ctx context.Context, log bus.LogID) (record.Accepted, error)
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
	_, err := e.deps.Bus.Thread(ctx, j.Tenant, record.ChildThread(j.ThreadID, j.ToolCallID))
	if errors.Is(err, bus.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

const (
	gone     = "its record is no longer kept"
	notGiven = "it was not given"
)

// proof is what the records say about an approval that a call claims.
type proof struct {
	lack   string       // why the approval is invalid; "" = it is valid
	answer *tool.Answer // to a question of the call; nil = none
	holder string       // executor in which the call that asked is still open; "" = none
}

func lacks(why string) proof { return proof{lack: why} }

// prove looks for j's approval. It is evidence for one call: a request of the thread allowed the action, as the gateway
// recorded it after checking the caller, and the request before that one had announced the action for this call of this tool
// with these arguments. Claims of the caller do not count. The answer to a question of the call is proved in the same way: a
// call that has asked was allowed before that.
func (e *Executor) prove(ctx context.Context, j job) (proof, error) {
	asked, allowed, err := e.resolution(ctx, j)
	if err != nil {
		return proof{}, err
	}
	if allowed == "" {
		return lacks("no client has acted on it"), nil
	}
	a, err := e.deps.Bus.Accepted(ctx, bus.LogID{Tenant: j.Tenant, RequestID: allowed})
	if errors.Is(err, bus.ErrNotFound) {
		return lacks(gone), nil
	}
	if err != nil {
		return proof{}, err
	}
	result, given := resultOf(a, j.Approved)
	if !given {
		return lacks(notGiven), nil
	}
	announced, err := e.announcedBefore(ctx, j, asked, allowed)
	if errors.Is(err, bus.ErrNotFound) {
		return lacks(gone), nil
	}
	if err != nil {
		return proof{}, err
	}
	c, ok := action(announced, j.Approved)
	switch {
	case !ok:
		return lacks("it was never requested"), nil
	case c.Kind == event.ContinueInput && c.Payload.AskedIn != "":
		return e.answerOf(ctx, j, c, result)
	case result.Status != event.ActionSuccess:
		return lacks(notGiven), nil
	default:
		return lacks(j.differs(c, event.ContinueApproval)), nil
	}
}

// announcedBefore lists the actions that the request before the allowed one announces: asked, "" when its record has
// expired from the stream.
func (e *Executor) announcedBefore(ctx context.Context, j job, asked, allowed string) ([]event.Continuation, error) {
	r := records{e.deps.Bus, e.deps.History}
	if asked == "" {
		return r.archivedBefore(ctx, historyapi.ThreadRef{Tenant: j.Tenant, ThreadID: j.ThreadID}, allowed)
	}
	return r.announcedIn(ctx, bus.LogID{Tenant: j.Tenant, RequestID: asked})
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

func resultOf(a record.Accepted, actionID string) (event.ActionResult, bool) {
	results := a.Request.Context.ActionResults
	i := slices.IndexFunc(results, func(r event.ActionResult) bool { return r.ActionID == actionID })
	if i < 0 {
		return event.ActionResult{}, false
	}
	return results[i], true
}

func (j job) differs(c event.Continuation, kind event.ContinuationKind) string {
	p := c.Payload
	if c.Kind != kind || p.ToolCallID != j.ToolCallID || p.Tool != j.Tool || p.ArgsHash != j.ArgsHash {
		return "it was for another call"
	}
	return ""
}
