package agentrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/transcript"
)

const (
	// quietWait is how long a follower may hear nothing before it is asked again.
	quietWait = 15 * time.Second
	// abandonWait bounds the word to agents that nobody waits for any more.
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
	if !ok {
		return loop.Output{
			Status:  event.ToolFailed,
			Content: "too many agents wait for others at this moment; try again later, or do the task yourself",
		}, nil
	}
	defer back()
	output, err := a.follow(ctx, call, asked.Content, relay)
	output.Elapsed = time.Since(started)
	return output, err
}

// follow tells what happens in the request of an agent, and gives the end of the call.
func (a agents) follow(ctx context.Context, call backend.Call, requestID string, relay loop.Relay) (loop.Output, error) {
	name, _ := config.AgentOfTool(call.Name)
	log := bus.LogID{Tenant: a.claim.log.Tenant, RequestID: requestID}
	lost := func(err error) error {
		return a.failed(ctx, fault.Wrap(err, fault.Unavailable, "the agent %s could not be followed; try again", name))
	}
	follower, err := a.claim.runner.deps.Bus.Follow(ctx, log, 0)
	if err != nil {
		return loop.Output{}, lost(err)
	}
	defer follower.Close()
	known := relay.Next(requestID)
	var actions []event.Continuation
	for {
		frame, err := follower.Next(ctx, quietWait)
		if errors.Is(err, bus.ErrIdle) {
			continue
		}
		if err != nil {
			return loop.Output{}, lost(err)
		}
		for line := range frame.Each() {
			if line.N >= known && shown(line.Name) {
				err = relay.Tell(name, line.JSON)
			}
			if errors.Is(err, loop.ErrBudget) {
				return a.overBudget(ctx, name, log)
			}
			if err != nil {
				return loop.Output{}, err
			}
			if line.Name != event.NameContinuation && !line.Name.IsTerminal() {
				continue
			}
			told, err := event.Decode(line.JSON)
			if err != nil {
				return loop.Output{}, lost(err)
			}
			if c, ok := told.Body.(event.Continuation); ok {
				actions = append(actions, c)
				continue
			}
			return a.end(call, name, requestID, told.Body, actions), nil
		}
	}
}

// shown says whether an event of an agent's log is told where it was called: not what only services read, nor what the
// call says already.
func shown(name event.Name) bool {
	return !name.IsInternal() && name != event.NameClaim && name != event.NameInput
}

func (a agents) overBudget(ctx context.Context, name string, log bus.LogID) (loop.Output, error) {
	err := a.claim.abandon(ctx, log.RequestID, "the budget of the request that called it is used up")
	return loop.Output{
		Status: event.ToolAborted, Content: "the budget of the request is used up; agent " + name + " was stopped",
	}, err
}

// end makes an output of the end of an agent's request.
func (a agents) end(call backend.Call, name, requestID string, end event.Body, actions []event.Continuation) loop.Output {
	switch b := end.(type) {
	case event.Done:
		if b.FinishReason == event.FinishActionRequired && len(actions) > 0 {
			return loop.Output{Asks: a.ask(call, name, requestID, actions[0])}
		}
		return answered(name, b)
	case event.Aborted:
		return loop.Output{Status: event.ToolAborted, Content: fmt.Sprintf("agent %s was stopped%s", name, because(b.Reason))}
	case event.Error:
		return loop.Output{Status: event.ToolFailed, Content: fmt.Sprintf("agent %s failed: %s", name, b.Message)}
	default:
		return loop.Output{Status: event.ToolFailed, Content: fmt.Sprintf("agent %s ended without an answer", name)}
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
	return loop.Output{Status: event.ToolSuccess, Content: text, Summary: fmt.Sprintf("%s answered in %d characters", name, len([]rune(text)))}
}

// ask is an action of an agent as it shows where the agent was called. Of several the first comes first: the agent
// announces the others again.
func (a agents) ask(call backend.Call, name, requestID string, c event.Continuation) *event.Continuation {
	asking := &event.AskingAgent{
		AgentID: name, RequestID: requestID, ThreadID: command.ChildThread(a.claim.accepted.ThreadID, call.ID),
		ActionID: c.ActionID, ToolCallID: c.Payload.ToolCallID,
	}
	c.ActionID = command.ChildAction(call.ID, c.ActionID)
	c.Payload.ToolCallID, c.Payload.Agent = call.ID, asking
	return &c
}

// abandonAll stops the agents that a request has called and not heard the end of. It is done once the request itself has
// ended, so that nobody will hear them any more.
func (c *claim) abandonAll(ctx context.Context, s *transcript.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonWait)
	defer cancel()
	for _, try := range s.Tried() {
		if _, ok := config.AgentOfTool(try.Tool); !ok {
			continue
		}
		child := command.ChildRequest(c.log.RequestID, try.CallID)
		if _, ended := s.Below(child); ended {
			continue
		}
		if err := c.abandon(ctx, child, "the request that called it has ended"); err != nil {
			return err
		}
	}
	return nil
}

func (c *claim) abandon(ctx context.Context, requestID, reason string) error {
	_, err := c.runner.deps.Bus.Abort(ctx, c.log.Tenant, command.Abort{
		RequestID: requestID, By: c.accepted.Owner, Reason: reason, At: time.Now().UTC(),
	})
	if err != nil {
		return fmt.Errorf("stop request %s, which request %s has made: %w", requestID, c.log.RequestID, err)
	}
	return nil
}

// ended does once more what follows the end of a request: its runner may have died before it had.
func (r *Runner) ended(ctx context.Context, a command.Accepted) error {
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
