package agentrunner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/transcript"
)

const (
	// quietWait is how long a follower may receive nothing before it is asked again.
	quietWait = 15 * time.Second
	// abortTimeout limits the aborts of child requests whose parent has ended.
	abortTimeout = 10 * time.Second
)

// subagents runs the calls of a request to other agents: a tool-executor checks the call and creates the child request, and
// this runner follows the log of the child.
type subagents struct {
	dispatcher

	names []string
}

// Has implements loop.Agents.
func (a subagents) Has(tool string) bool {
	name, ok := config.AgentOfTool(tool)
	return ok && slices.Contains(a.names, name)
}

// Call implements loop.Agents.
func (a subagents) Call(ctx context.Context, call backend.Call, approval string, relay loop.Relay) (loop.Output, error) {
	started := time.Now()
	asked, err := a.dispatcher.Call(ctx, call, approval, func(loop.Progress) {})
	if err != nil || asked.Status != event.ToolSuccess {
		return asked, err
	}
	if !id.Valid(asked.Content) {
		return loop.Output{}, fmt.Errorf("the result of call %s to an agent does not name a request", call.ID)
	}
	back, ok := a.claim.runner.slots.lendSlot(ctx)
	if !ok { // nothing would read its result
		return loop.Output{
			Status:  event.ToolFailed,
			Content: "too many agents wait for others at this moment; try again later, or do the task yourself",
		}, a.claim.abortChild(ctx, asked.Content, "too many agents wait for others")
	}
	defer back()
	output, err := a.follow(ctx, call, asked.Content, relay)
	output.Elapsed, output.Summary = time.Since(started), cmp.Or(output.Summary, output.Content)
	return output, err
}

// subagentFollower follows the child request of one call.
type subagentFollower struct {
	subagents

	call      backend.Call
	name      string // of the agent
	requestID string
	relay     loop.Relay
	known     uint64               // number of the child's events that were relayed
	actions   []event.Continuation // announced by the agent
}

// follow relays the events of a child request, and returns the result of the call.
func (a subagents) follow(ctx context.Context, call backend.Call, requestID string, relay loop.Relay) (loop.Output, error) {
	name, _ := config.AgentOfTool(call.Name)
	f := subagentFollower{subagents: a, call: call, name: name, requestID: requestID, relay: relay, known: relay.Next(requestID)}
	lost := func(err error) error {
		return a.failed(ctx, apierr.Wrap(err, apierr.Unavailable, "could not follow agent %s; try again", name))
	}
	follower, err := a.claim.runner.deps.Bus.Follow(ctx, bus.LogID{Tenant: a.claim.log.Tenant, RequestID: requestID}, 0)
	if err != nil {
		return loop.Output{}, lost(err)
	}
	defer follower.Close()
	for {
		frame, err := follower.Next(ctx, quietWait)
		if errors.Is(err, bus.ErrIdle) {
			continue
		}
		if err != nil {
			return loop.Output{}, lost(err)
		}
		end, err := f.relayFrame(frame)
		if errors.Is(err, loop.ErrBudget) {
			return f.overBudget(ctx)
		}
		if err != nil {
			return loop.Output{}, err
		}
		if end != nil {
			return f.output(end), nil
		}
	}
}

// relayFrame relays the new events of a frame, and returns the terminal event if the frame has it.
func (f *subagentFollower) relayFrame(frame event.Frame) (end event.Body, err error) {
	for line := range frame.Each() {
		if line.N >= f.known && isRelayed(line.Name) {
			if err := f.relay.Emit(f.name, line.JSON); err != nil {
				return nil, err
			}
		}
		if line.Name != event.NameContinuation && !line.Name.IsTerminal() {
			continue
		}
		decoded, err := event.Decode(line.JSON)
		if err != nil {
			return nil, fmt.Errorf("event %d of request %s: %w", line.N, f.requestID, err)
		}
		c, ok := decoded.Body.(event.Continuation)
		if !ok {
			return decoded.Body, nil
		}
		f.actions = append(f.actions, c)
	}
	return nil, nil //nolint:nilnil // there is no end yet
}

// isRelayed reports whether an event of a child request is relayed to its parent. Internal events are not, nor are those
// that only repeat the call.
func isRelayed(name event.Name) bool {
	return !name.IsInternal() && name != event.NameClaim && name != event.NameInput
}

func (f *subagentFollower) overBudget(ctx context.Context) (loop.Output, error) {
	err := f.claim.abortChild(ctx, f.requestID, "the budget of the request that called it is used up")
	return loop.Output{
		Status: event.ToolAborted, Content: "the budget of the request is used up; agent " + f.name + " was stopped",
	}, err
}

// output returns the result of the call at the end of the child request.
func (f *subagentFollower) output(end event.Body) loop.Output {
	switch b := end.(type) {
	case event.Done:
		if b.FinishReason == event.FinishActionRequired && len(f.actions) > 0 {
			return loop.Output{Asks: f.action(f.actions[0])}
		}
		return doneOutput(f.name, b)
	case event.Aborted:
		return loop.Output{Status: event.ToolAborted, Content: fmt.Sprintf("agent %s was stopped%s", f.name, reasonSuffix(b.Reason))}
	case event.Error:
		return loop.Output{Status: event.ToolFailed, Content: fmt.Sprintf("agent %s failed: %s", f.name, b.Message)}
	default:
		return loop.Output{Status: event.ToolFailed, Content: fmt.Sprintf("agent %s ended without an answer", f.name)}
	}
}

func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// doneOutput returns the text of an answer, without thinking and tool results.
func doneOutput(name string, b event.Done) loop.Output {
	var said []string
	for _, c := range b.Content {
		if c.Type == event.ContentText {
			said = append(said, c.Text)
		}
	}
	text := strings.Join(said, "\n\n")
	if b.FinishReason != event.FinishStop {
		text = strings.TrimSpace(fmt.Sprintf("%s\n[agent %s stopped before it was done: %s]", text, name, b.FinishReason))
	}
	return loop.Output{
		Status: event.ToolSuccess, Content: text, Summary: fmt.Sprintf("%s answered in %d characters", name, len([]rune(text))),
	}
}

// action returns the action of a child request as its parent announces it. If the child needs several, the first is used:
// the child announces the others again.
func (f *subagentFollower) action(c event.Continuation) *event.Continuation {
	asking := &event.AskingAgent{
		AgentID: f.name, RequestID: f.requestID, ThreadID: record.ChildThread(f.claim.accepted.ThreadID, f.call.ID),
		ActionID: c.ActionID, ToolCallID: c.Payload.ToolCallID,
	}
	c.ActionID = record.ChildAction(f.call.ID, c.ActionID)
	c.Payload.ToolCallID, c.Payload.Agent = f.call.ID, asking
	return &c
}

// abortChildren aborts the child requests that have not ended. It is called after the request itself has ended, so their
// results will not be read.
func (c *claim) abortChildren(ctx context.Context, s *transcript.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	for _, try := range s.Tried() {
		if _, ok := config.AgentOfTool(try.Tool); !ok {
			continue
		}
		child := record.ChildRequest(c.log.RequestID, try.CallID)
		if _, ended := s.ChildProgress(child); ended {
			continue
		}
		if err := c.abortChild(ctx, child, "the request that called it has ended"); err != nil {
			return err
		}
	}
	return nil
}

func (c *claim) abortChild(ctx context.Context, requestID, reason string) error {
	_, err := c.runner.deps.Bus.Abort(ctx, c.log.Tenant, record.Abort{
		RequestID: requestID, By: c.accepted.Owner, Reason: reason, At: c.runner.deps.Bus.Now().UTC(),
	})
	if err != nil {
		return fmt.Errorf("abort child request %s of request %s: %w", requestID, c.log.RequestID, err)
	}
	return nil
}

// abortChildrenOf repeats abortChildren for a request that has ended, in case its runner crashed before it was done.
func (r *Runner) abortChildrenOf(ctx context.Context, a record.Accepted) error {
	if len(r.deps.Config.Agents[a.AgentID].Agents) == 0 {
		return nil
	}
	c := &claim{runner: r, log: bus.LogID{Tenant: a.Tenant, RequestID: a.RequestID}, accepted: a}
	events, err := c.logOf(ctx, a.RequestID)
	if err != nil {
		return err
	}
	state := new(transcript.State)
	state.Fold(events...)
	return c.abortChildren(ctx, state)
}
