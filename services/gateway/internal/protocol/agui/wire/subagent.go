package wire

import (
	"cmp"
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
)

// subagent projects an event of an agent that was called.
func (r *run) subagent(a *agent, b event.Subagent) {
	inner, err := event.Decode(b.Inner)
	if err != nil || inner.Body.Name().IsInternal() || inner.RequestID == "" || slices.Contains(a.ended, inner.RequestID) {
		return // an event of another version, or one after the end
	}
	switch inner.Body.(type) {
	case event.Claim, event.Unknown:
		return
	}
	r.fold(r.child(a, b, inner.RequestID), inner.Body)
}

// child returns the agent that a call has made, and writes its start if it is new.
func (r *run) child(a *agent, b event.Subagent, runID string) *agent {
	for _, known := range a.below {
		if known.runID == runID {
			return known
		}
	}
	child := &agent{runID: runID, parent: a, call: b.ToolCallID, name: cmp.Or(b.AgentID, "agent")}
	a.below = append(a.below, child)
	r.emit(child, child.started())
	return child
}

func (a *agent) started() Event {
	return Event{
		Type: SubagentStarted, SubagentRunID: a.runID, Name: a.name, ParentSubagentRunID: a.parent.runID, ParentToolCallID: a.call,
	}
}

// drop removes an agent that has ended.
func (a *agent) drop(child *agent) {
	a.below = slices.DeleteFunc(a.below, func(one *agent) bool { return one == child })
	a.ended = append(a.ended, child.runID)
}
