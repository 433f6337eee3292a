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
	// abandonWait limits the aborts of child requests whose parent has ended.
	abandonWait = 10 * time.Second
)

// agents has other agents do what calls of a request ask: a tool-executor checks the call and makes the request, and this
// runner follows that request's log.
type agents struct {
	dispatcher

	names []string
}

// Has implements loop.Agents.
func (a agents) Has(tool string) bool {
	name, ok := config.AgentOfTool(tool)
	return ok && slices.Contains(a.names, name)
}

// Call implements loop.Agents.
func (a agents) Call(ctx context.Context, call backend.Call, approval string, relay loop.Relay) (loop.Output, error) {
	started := time.Now()
	asked, err := a.dispatcher.Call(ctx, call, approval, func(string) {})
	if err != nil || asked.Status != event.ToolSuccess {
		return asked, err
	}
	if !id.Valid(asked.Content) {
		return loop.Output{}, fmt.Errorf("call %s of an agent names no request", call.ID)
	}
	back, ok := a.claim.runner.slots.lend(ctx)
	if !ok { // its result would not be read
		return loop.Output{
			Status:  event.ToolFailed,
			Content: "too many agents wait for others at this moment; try again later, or do the task yourself",
		}, a.claim.abandon(ctx, asked.Content, "too many agents wait for others")
	}
	defer back()
	output, err := a.follow(ctx, call, asked.Content, relay)
	output.Elapsed, output.Summary = time.Since(started), cmp.Or(output.Summary, output.Content)
	return output, err
}

// visit is a call of an agent that is followed.
type visit struct {
	agents

	call      backend.Call
	name      string // of the agent
	requestID string
	relay     loop.Relay
	known     uint64               // number of the child's events that were relayed
	actions   []event.Continuation // that the agent has announced
}

// follow relays the events of a child request, and returns the result of the call.
func (a agents) follow(ctx context.Context, call backend.Call, requestID string, relay loop.Relay) (loop.Output, error) {
	name, _ := config.AgentOfTool(call.Name)
	v := visit{agents: a, call: call, name: name, requestID: requestID, relay: relay, known: relay.Next(requestID)}
	lost := func(err error) error {
		return a.failed(ctx, apierr.Wrap(err, apierr.Unavailable, "the agent %s could not be followed; try again", name))
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
		end, err := v.take(frame)
		if errors.Is(err, loop.ErrBudget) {
			return v.overBudget(ctx)
		}
		if err != nil {
			return loop.Output{}, err
		}
		if end != nil {
			return v.output(end), nil
		}
	}
}

// take relays the new events of a frame, and returns the terminal event if the frame has it.
func (v *visit) take(frame event.Frame) (end event.Body, err error) {
	for line := range frame.Each() {
		if line.N >= v.known && shown(line.Name) {
			if err := v.relay.Emit(v.name, line.JSON); err != nil {
				return nil, err
			}
		}
		if line.Name != event.NameContinuation && !line.Name.IsTerminal() {
			continue
		}
		told, err := event.Decode(line.JSON)
		if err != nil {
			return nil, fmt.Errorf("event %d of request %s: %w", line.N, v.requestID, err)
		}
		c, ok := told.Body.(event.Continuation)
		if !ok {
			return told.Body, nil
		}
		v.actions = append(v.actions, c)
	}
	return nil, nil //nolint:nilnil // there is no end yet
}

// shown reports whether an event of a child request is relayed to its parent: internal events are not, and neither are
// those that repeat the call.
func shown(name event.Name) bool {
	return !name.IsInternal() && name != event.NameClaim && name != event.NameInput
}

func (v *visit) overBudget(ctx context.Context) (loop.Output, error) {
	err := v.claim.abandon(ctx, v.requestID, "the budget of the request that called it is used up")
	return loop.Output{
		Status: event.ToolAborted, Content: "the budget of the request is used up; agent " + v.name + " was stopped",
	}, err
}

// output is what becomes of the call at the end of the agent's request.
func (v *visit) output(end event.Body) loop.Output {
	switch b := end.(type) {
	case event.Done:
		if b.FinishReason == event.FinishActionRequired && len(v.actions) > 0 {
			return loop.Output{Asks: v.ask(v.actions[0])}
		}
		return answered(v.name, b)
	case event.Aborted:
		return loop.Output{Status: event.ToolAborted, Content: fmt.Sprintf("agent %s was stopped%s", v.name, because(b.Reason))}
	case event.Error:
		return loop.Output{Status: event.ToolFailed, Content: fmt.Sprintf("agent %s failed: %s", v.name, b.Message)}
	default:
		return loop.Output{Status: event.ToolFailed, Content: fmt.Sprintf("agent %s ended without an answer", v.name)}
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// answered is what an agent has said, without its thoughts and what its tools gave.
func answered(name string, b event.Done) loop.Output {
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

// ask is an action of an agent as it shows where the agent was called. Of several the first comes first: the agent
// announces the others again.
func (v *visit) ask(c event.Continuation) *event.Continuation {
	asking := &event.AskingAgent{
		AgentID: v.name, RequestID: v.requestID, ThreadID: record.ChildThread(v.claim.accepted.ThreadID, v.call.ID),
		ActionID: c.ActionID, ToolCallID: c.Payload.ToolCallID,
	}
	c.ActionID = record.ChildAction(v.call.ID, c.ActionID)
	c.Payload.ToolCallID, c.Payload.Agent = v.call.ID, asking
	return &c
}

// abandonAll aborts the child requests that have not ended. It is called after the request itself has ended, so their
// results will not be read.
func (c *claim) abandonAll(ctx context.Context, s *transcript.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonWait)
	defer cancel()
	for _, try := range s.Tried() {
		if _, ok := config.AgentOfTool(try.Tool); !ok {
			continue
		}
		child := record.ChildRequest(c.log.RequestID, try.CallID)
		if _, ended := s.ChildProgress(child); ended {
			continue
		}
		if err := c.abandon(ctx, child, "the request that called it has ended"); err != nil {
			return err
		}
	}
	return nil
}

func (c *claim) abandon(ctx context.Context, requestID, reason string) error {
	_, err := c.runner.deps.Bus.Abort(ctx, c.log.Tenant, record.Abort{
		RequestID: requestID, By: c.accepted.Owner, Reason: reason, At: c.runner.deps.Bus.Now().UTC(),
	})
	if err != nil {
		return fmt.Errorf("stop request %s, which request %s has made: %w", requestID, c.log.RequestID, err)
	}
	return nil
}

// ended does once more what follows the end of a request: its runner may have died before it had.
func (r *Runner) ended(ctx context.Context, a record.Accepted) error {
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
	return c.abandonAll(ctx, state)
}
