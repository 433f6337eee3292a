package loop

import (
	"bytes"
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/weaken"
)

// Agents runs calls of tools that are agents. In all other respects, a call of an agent is a call of a tool.
type Agents interface {
	// Has reports whether a tool is an agent.
	Has(tool string) bool
	// Call runs a call of an agent and returns its output, or the action that it needs from a client. It passes the
	// events of the child request to relay. Otherwise the contract is that of [Tools].
	Call(ctx context.Context, call backend.Call, approval string, relay Relay) (Output, error)
}

// Relay writes the events of a child request to the log of its parent.
type Relay interface {
	// Next returns the number of the first event of the child request that the parent's log does not have.
	Next(requestID string) uint64
	// Emit appends the next event of the child request, encoded. It returns ErrBudget if the request has used up its
	// budget, or the error of the log.
	Emit(agentID string, line []byte) error
}

// ErrBudget reports that a request and its child requests have used up the budget.
var ErrBudget = errors.New("the budget of the request is used up")

// relay is the [Relay] of a job.
type relay struct{ job *job }

func (l relay) Next(requestID string) uint64 {
	j := &l.job.run.events
	j.mu.Lock()
	defer j.mu.Unlock()
	next, _ := j.state.ChildProgress(requestID)
	return next
}

func (l relay) Emit(agentID string, line []byte) error {
	l.job.mu.Lock()
	defer l.job.mu.Unlock()
	if l.job.over {
		return context.Canceled // the call has ended
	}
	if weaken.Without(weaken.Relay) {
		return nil
	}
	r := l.job.run
	told := event.Subagent{ToolCallID: l.job.call.ID, AgentID: agentID, Inner: bytes.Clone(line)}
	if err := r.events.emit(told); err != nil {
		return err
	}
	if r.events.over(r.overBudget) {
		return ErrBudget
	}
	return nil
}

// over evaluates budget while no event is written.
func (j *eventWriter) over(budget func() bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return budget()
}

// wait discards the result block. The call has no result until a client has acted.
func (j *job) wait(action event.Continuation) error {
	j.action = &action
	return j.giveUp(string(event.FinishActionRequired))
}
