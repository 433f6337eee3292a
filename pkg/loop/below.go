package loop

import (
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/go-json-experiment/json/jsontext"
)

// Agents has other agents do what calls of this one ask. A call of an agent is a call of a tool in every other respect.
type Agents interface {
	// Has reports whether a tool is an agent.
	Has(tool string) bool
	// Call has an agent do what a call asks, and gives its end, or what a client must do first. What happens meanwhile it
	// tells relay. For the rest see [Tools].
	Call(ctx context.Context, call backend.Call, approval string, relay Relay) (Output, error)
}

// Relay takes what happens in the request of an agent that was called into the log of the one that has called it.
type Relay interface {
	// Next is the place in that request's log from which on nothing has been told yet.
	Next(requestID string) uint64
	// Tell tells the next event, encoded. The error is ErrBudget when the request may go no further, or the log's.
	Tell(agentID string, line []byte) error
}

// ErrBudget says that a request has used what it may, with the agents that it has called.
var ErrBudget = errors.New("the budget of the request is used up")

// relay is the [Relay] of a job.
type relay struct{ job *job }

func (l relay) Next(requestID string) uint64 {
	j := &l.job.run.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	next, _ := j.state.Below(requestID)
	return next
}

func (l relay) Tell(agentID string, line []byte) error {
	l.job.mu.Lock()
	defer l.job.mu.Unlock()
	if l.job.over {
		return context.Canceled // nobody waits for the agent any more
	}
	if weaken.Without(weaken.Relay) {
		return nil
	}
	r := l.job.run
	told := event.Subagent{ToolCallID: l.job.call.ID, AgentID: agentID, Inner: jsontext.Value(line).Clone()}
	if err := r.journal.emit(told); err != nil {
		return err
	}
	if r.journal.over(r.overBudget) {
		return ErrBudget
	}
	return nil
}

// over asks a question about the state while nothing is written.
func (j *journal) over(budget func() bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return budget()
}

// wait gives up the block of the result. The call stays without one until a client has acted.
func (j *job) wait(action event.Continuation) error {
	j.action = &action
	return j.giveUp(string(event.FinishActionRequired))
}
