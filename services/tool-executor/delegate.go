package toolexecutor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/threadqueue"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
)

const (
	defaultDepth = 3
	// attempts is how often a request tries to join a thread that only deliveries of one call write to.
	attempts = 5
)

// delegate is the tool by which agents call one agent. A call creates a request of that agent, on a separate thread,
// and its result names the request: the caller follows its log. The ids derive from the call, so a repeated delivery of
// the call finds the records of the first.
type delegate struct {
	bus     Bus
	history Archive
	config  config.Config
	agent   string
}

// delegates makes the tools for all agents that others may call.
func delegates(deps Deps) []tool.Tool {
	cfg := deps.Config
	var names []string
	for _, a := range cfg.Agents {
		names = append(names, a.Agents...)
	}
	slices.Sort(names)
	var tools []tool.Tool
	for _, name := range slices.Compact(names) {
		tools = append(tools, tool.Func(builtin.AgentSpec(name, cfg.Agents[name]), delegate{deps.Bus, deps.History, cfg, name}.call))
	}
	return tools
}

type task struct {
	Task string `json:"task"`
}

// call makes the request, or the next one where a client has acted for the agent since. What may be done is read from the
// records of the gateway: of what the caller says, only the task counts.
func (d delegate) call(ctx context.Context, in task, call tool.Call) (tool.Result, error) {
	caller, err := d.bus.Accepted(ctx, bus.LogID{Tenant: call.For.Tenant, RequestID: call.For.RequestID})
	if errors.Is(err, bus.ErrNotFound) {
		return tool.Result{}, apierr.New(apierr.ToolError, "the record of the request that calls is no longer kept; send a new message")
	}
	if err != nil {
		return tool.Result{}, err
	}
	above, err := d.above(caller)
	if err != nil {
		return tool.Result{}, err
	}
	child := record.Accepted{
		Tenant: caller.Tenant, Owner: caller.Owner, AgentID: d.agent, At: d.bus.Now().UTC(),
		RequestID: record.ChildRequest(caller.RequestID, call.ID), ThreadID: record.ChildThread(caller.ThreadID, call.ID),
		Request: event.AgentRequest{
			Messages: []event.InputMessage{event.UserText(in.Task)}, Context: event.Context{Extra: event.NewMembers([]byte(call.Context))},
		},
		Caller: &record.Caller{RequestID: caller.RequestID, ThreadID: caller.ThreadID, ToolCallID: call.ID, Agents: above},
	}
	for range attempts {
		requestID, err := d.place(ctx, caller, child)
		if !errors.Is(err, bus.ErrConflict) {
			return tool.Result{Content: requestID, Summary: "asked " + d.agent}, err
		}
	}
	return tool.Result{}, fmt.Errorf("thread %s of agent %s: %w", child.ThreadID, d.agent, bus.ErrConflict)
}

// above lists the agents that would wait for this one, and refuses circles and depths.
func (d delegate) above(caller record.Accepted) ([]string, error) {
	if !slices.Contains(d.config.Agents[caller.AgentID].Agents, d.agent) {
		return nil, apierr.New(apierr.ToolError, "agent %s may not call agent %s", caller.AgentID, d.agent)
	}
	var above []string
	if caller.Caller != nil {
		above = slices.Clone(caller.Caller.Agents)
	}
	above = append(above, caller.AgentID)
	if slices.Contains(above, d.agent) {
		return nil, apierr.New(apierr.ToolError, "agent %s waits for this answer itself (%s); do the task yourself",
			d.agent, strings.Join(above, " called "))
	}
	limit := cmp.Or(d.config.Agents[above[0]].Limits.Depth, defaultDepth)
	if len(above) > limit {
		return nil, apierr.New(apierr.ToolError, "agents may call one another %d levels deep here (%s); do the task yourself",
			limit, strings.Join(above, " called "))
	}
	return above, nil
}

// place ensures that the agent works on the task, or continues after an action, and returns the id of the request in
// which it does.
func (d delegate) place(ctx context.Context, caller, child record.Accepted) (requestID string, err error) {
	thread, err := d.thread(ctx, caller, child)
	if errors.Is(err, bus.ErrNotFound) {
		return d.begin(ctx, child, bus.ThreadRecord{})
	}
	if err != nil {
		return "", err
	}
	if thread.RequestID == child.RequestID {
		_, err := d.queue().Resume(ctx, thread, child)
		return child.RequestID, err
	}
	answers, err := d.answers(ctx, caller, child, thread.RequestID)
	if err != nil || len(answers) == 0 {
		return thread.RequestID, err
	}
	child.Request.Messages, child.Request.ThreadID, child.Request.Context.ActionResults = nil, child.ThreadID, answers
	return d.begin(ctx, child, thread)
}

// thread returns the newest record of the child's thread. It may have expired where an action is resolved: then history has
// it, and the agent must not do its task a second time.
func (d delegate) thread(ctx context.Context, caller, child record.Accepted) (bus.ThreadRecord, error) {
	t, err := d.bus.Thread(ctx, child.Tenant, child.ThreadID)
	if errors.Is(err, bus.ErrNotFound) && len(caller.Request.Context.ActionResults) > 0 {
		return d.records().thread(ctx, historyapi.ThreadRef{Tenant: child.Tenant, ThreadID: child.ThreadID})
	}
	return t, err
}

func (d delegate) queue() *threadqueue.Queue { return threadqueue.New(d.bus, d.bus.Now) }

func (d delegate) records() records { return records{d.bus, d.history} }

// begin writes the record of a request, and makes it the next one of its thread.
func (d delegate) begin(ctx context.Context, child record.Accepted, thread bus.ThreadRecord) (requestID string, err error) {
	child, _, err = d.bus.Accept(ctx, child)
	if errors.Is(err, bus.ErrTooLarge) {
		return "", apierr.Wrap(err, apierr.ToolError, "the task is too large for agent %s; shorten it", d.agent)
	}
	if err != nil {
		return "", err
	}
	return child.RequestID, d.queue().Append(ctx, thread, child, 0)
}

// answers are the results that the caller's request has brought for the actions that asked announces: on the caller's
// thread they have other ids.
func (d delegate) answers(ctx context.Context, caller, child record.Accepted, asked string) ([]event.ActionResult, error) {
	given := caller.Request.Context.ActionResults
	if len(given) == 0 {
		return nil, nil
	}
	actions, err := d.records().announcedIn(ctx, bus.LogID{Tenant: child.Tenant, RequestID: asked})
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return nil, err
	}
	shown, err := d.shown(ctx, caller)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return nil, err
	}
	var answers []event.ActionResult
	for _, action := range actions {
		outer := record.ChildAction(child.Caller.ToolCallID, action.ActionID)
		i := slices.IndexFunc(given, func(r event.ActionResult) bool { return r.ActionID == outer })
		if i < 0 {
			continue
		}
		if !sameAction(shown, outer, action) {
			return nil, apierr.New(apierr.ToolError, "what agent %s asks for is not what the user was shown; it was not passed on", d.agent)
		}
		answer := given[i]
		answer.ActionID = action.ActionID
		answers = append(answers, answer)
	}
	return answers, nil
}

// shown lists the actions that the request before caller has announced on its thread: those that its user saw.
func (d delegate) shown(ctx context.Context, caller record.Accepted) ([]event.Continuation, error) {
	before := ""
	for r, err := range d.bus.ThreadRecords(ctx, caller.Tenant, caller.ThreadID, 0) {
		if err != nil {
			return nil, err
		}
		if r.RequestID == caller.RequestID {
			break
		}
		before = r.RequestID
	}
	if before == "" {
		return d.records().archivedBefore(ctx, historyapi.ThreadRef{Tenant: caller.Tenant, ThreadID: caller.ThreadID}, caller.RequestID)
	}
	return d.records().announcedIn(ctx, bus.LogID{Tenant: caller.Tenant, RequestID: before})
}

func sameAction(shown []event.Continuation, outer string, inner event.Continuation) bool {
	return slices.ContainsFunc(shown, func(c event.Continuation) bool {
		return c.ActionID == outer && c.Kind == inner.Kind && c.Payload.Tool == inner.Payload.Tool &&
			c.Payload.ArgsHash == inner.Payload.ArgsHash
	})
}
