package wire

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
)

// start writes the start of an entity that is not open.
func (r *run) start(a *agent, e entity, about Metadata) {
	if a.find(e.id) >= 0 {
		return
	}
	a.open = append(a.open, e)
	r.opened(a, e, about)
}

// opened writes the events that start an entity.
func (r *run) opened(a *agent, e entity, about Metadata) {
	switch e.kind {
	case event.NameThinking:
		r.emit(a, Event{Type: ReasoningStart, MessageID: e.id})
		r.emit(a, Event{Type: ReasoningMessageStart, MessageID: e.id, Role: roleReasoning})
	case event.NameToolCall:
		r.emit(a, Event{Type: ToolCallStart, ToolCallID: e.id, ToolCallName: e.toolName()})
	default:
		r.emit(a, Event{Type: TextStart, MessageID: e.id, Role: roleAssistant, Metadata: about})
	}
}

// toolName returns the name of the tool: a start without one is not valid.
func (e entity) toolName() string {
	if e.name == "" {
		return "unknown"
	}
	return e.name
}

// content writes a part of an entity that is open.
func (r *run) content(a *agent, kind event.Name, id, delta string) {
	if delta == "" {
		return
	}
	a.open[a.find(id)].hasContent = true
	switch kind {
	case event.NameThinking:
		r.emit(a, Event{Type: ReasoningMessageContent, MessageID: id, Delta: delta})
	case event.NameToolCall:
		r.emit(a, Event{Type: ToolCallArgs, ToolCallID: id, Delta: delta})
	default:
		r.emit(a, Event{Type: TextContent, MessageID: id, Delta: delta})
	}
}

// hasContent reports whether an open entity has content.
func (*run) hasContent(a *agent, id string) bool { return a.open[a.find(id)].hasContent }

// stop writes the end of an entity that is open.
func (r *run) stop(a *agent, id string) {
	i := a.find(id)
	e := a.open[i]
	a.open = slices.Delete(a.open, i, i+1)
	switch e.kind {
	case event.NameThinking:
		r.emit(a, Event{Type: ReasoningMessageEnd, MessageID: id})
		r.emit(a, Event{Type: ReasoningEnd, MessageID: id})
	case event.NameToolCall:
		r.emit(a, Event{Type: ToolCallEnd, ToolCallID: id})
	default:
		r.emit(a, Event{Type: TextEnd, MessageID: id})
	}
}

// find returns the index of an open entity, -1 if it is not open.
func (a *agent) find(id string) int {
	return slices.IndexFunc(a.open, func(e entity) bool { return e.id == id })
}

// close writes the end of all that is open: of the agents below first.
func (r *run) close(a *agent) {
	for len(a.below) > 0 {
		child := a.below[0]
		r.close(child)
		r.emit(child, Event{Type: SubagentFinished, SubagentRunID: child.runID, Outcome: &Outcome{Type: outcomeSuspended}})
		a.drop(child)
	}
	for len(a.open) > 0 {
		r.stop(a, a.open[0].id)
	}
}

// reopen returns the starts of all that is open, for a client that attaches.
func (r *run) reopen() []Event {
	r.out = nil
	r.reopenBelow(r.top)
	return r.out
}

func (r *run) reopenBelow(a *agent) {
	for _, e := range a.open {
		r.opened(a, e, nil)
	}
	for _, child := range a.below {
		r.emit(child, child.started())
		r.reopenBelow(child)
	}
}
