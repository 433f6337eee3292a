package agui

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// finish ends the turn with the run.
func (r *reader) finish(e aguiEvent) error {
	used, model := e.used()
	r.outcome.Usage = used
	if model != "" {
		r.outcome.Model = model
	}
	if err := r.endText(); err != nil {
		return err
	}
	if e.Outcome.Type == "cancelled" {
		return r.agent.Failed("it has cancelled its run", true)
	}
	if !r.said && len(r.order) == 0 && r.last != "" && len(e.Outcome.Interrupts) == 0 {
		if err := r.emit(backend.TextDelta(r.last)); err != nil {
			return err
		}
	}
	for _, i := range e.Outcome.Interrupts {
		if err := r.ask(i); err != nil {
			return err
		}
	}
	if err := r.leave(); err != nil {
		return err
	}
	r.outcome.Finish = event.FinishStop
	switch reason := e.about().FinishReason; {
	case r.asked > 0:
		r.outcome.Finish = event.FinishToolCalls
	case slices.Contains([]event.FinishReason{
		event.FinishLength, event.FinishMaxTurns, event.FinishBudget, event.FinishContentFilter, event.FinishRefusal,
	}, reason):
		r.outcome.Finish = reason
	}
	return nil
}

// leave passes on the calls of the turn's tools that the agent leaves to its client.
func (r *reader) leave() error {
	for _, c := range r.order {
		if c.handled || c.running || !r.offered(c.name) {
			continue
		}
		c.handled = true
		if err := r.call(c.name, "", string(c.arguments()), note{ID: c.id, Message: c.parent}); err != nil {
			return err
		}
	}
	return r.startAll()
}

// startAll reports the calls that have neither a result nor an interrupt. The log shows their outcome as unknown.
func (r *reader) startAll() error {
	for _, c := range r.order {
		if err := r.start(c); err != nil {
			return err
		}
	}
	return nil
}

// call emits a whole call whose result the next turn has.
func (r *reader) call(name string, gate backend.Gate, args string, n note) error {
	i := r.asked
	r.asked++
	for _, c := range []backend.Chunk{
		backend.CallStart{Index: i, Name: name, Gate: gate}, backend.CallSignature{Index: i, Signature: n.String()},
		backend.CallDelta{Index: i, Args: args},
	} {
		if err := r.emit(c); err != nil {
			return err
		}
	}
	return nil
}

// subagent reports an agent that the agent calls as one of its tools.
func (r *reader) subagent(e aguiEvent) error {
	output, known := r.agents[e.SubagentRunID]
	if e.Type == subagentStarted {
		if known || e.SubagentRunID == "" {
			return r.agent.Broke("subagent %q starts twice, or without an id", e.SubagentRunID)
		}
		r.agents[e.SubagentRunID] = new(strings.Builder)
		name := "agent"
		if e.Name != "" {
			name = "agent__" + e.Name
		}
		if err := r.endText(); err != nil {
			return err
		}
		return r.emit(backend.ToolStarted{ID: e.SubagentRunID, Name: name})
	}
	if output == nil {
		return nil
	}
	r.agents[e.SubagentRunID] = nil
	ended := backend.ToolEnded{ID: e.SubagentRunID, Content: output.String()}
	if e.Type == subagentError {
		ended.Status, ended.Content = event.ToolFailed, e.Message
	}
	return r.emit(ended)
}

// maxBelow limits the text of a subagent that counts as its result, in bytes.
const maxBelow = 64 << 10

// below shows the text of a subagent as the output of its tool.
func (r *reader) below(e aguiEvent) error {
	output := r.agents[e.SubagentRunID]
	if output == nil || e.text() == "" || e.Type != textContent && e.Type != textChunk {
		return nil
	}
	if output.Len()+len(e.text()) <= maxBelow {
		output.WriteString(e.text())
	}
	return r.emit(backend.ToolProgress{ID: e.SubagentRunID, Delta: e.text()})
}

// other emits events of the application, its state and its activities.
func (r *reader) other(e aguiEvent) error {
	name, data := e.Name, e.Value
	switch e.Type {
	case stateSnapshot:
		name, data = "agui.state", wrap("snapshot", e.Snapshot)
	case stateDelta:
		name, data = "agui.state", wrap("delta", raw(e.Delta))
	case activitySnapshot:
		if e.ActivityType == "PLAN" && r.plan(e.Content) != nil {
			return r.emit(backend.Plan{Steps: r.plan(e.Content)})
		}
		name, data = "agui.activity", wrap("snapshot", raw(map[string]any{"messageId": e.MessageID, "type": e.ActivityType, "content": e.Content}))
	case activityDelta:
		name, data = "agui.activity", wrap("delta", raw(map[string]any{"messageId": e.MessageID, "type": e.ActivityType, "patch": e.Patch}))
	}
	return r.custom(name, data)
}

// custom emits an event of the application; of agentbus's own, which an agent of agentbus sends, those that mean something.
func (r *reader) custom(name string, data json.RawMessage) error {
	var known struct {
		Message    string `json:"message"`
		ToolCallID string `json:"toolCallId"`
		Delta      string `json:"delta"`
	}
	if jsontext.Value(data).Kind() != '{' {
		data = wrap("value", data)
	}
	if jsonv2.Unmarshal(data, &known) != nil {
		known.Message, known.ToolCallID = "", ""
	}
	if c := r.calls[known.ToolCallID]; name == "tool_output" && c != nil && known.Delta != "" && !c.handled {
		if err := r.start(c); err != nil {
			return err
		}
		return r.emit(backend.ToolProgress{ID: c.id, Delta: known.Delta})
	}
	if name == string(event.NameNotice) && known.Message != "" {
		return r.emit(backend.Warning(known.Message))
	}
	if _, err := event.NewCustom(name, data); err != nil {
		return nil //nolint:nilerr // the log has no such event: a name of ours, or data that is too large
	}
	return r.emit(backend.Custom{Type: name, Data: data})
}

// plan reads the steps of a plan; nil for an activity of another form.
func (*reader) plan(content json.RawMessage) []event.PlanStep {
	var plan struct {
		Steps []event.PlanStep `json:"steps"`
	}
	if jsonv2.Unmarshal(content, &plan) != nil {
		return nil
	}
	return plan.Steps
}

// wrap returns an object of one member.
func wrap(name string, value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return json.RawMessage("{}")
	}
	return raw(map[string]any{name: value})
}

// raw encodes a value that was decoded from JSON.
func raw(value any) json.RawMessage {
	text, err := jsonv2.Marshal(value, jsonv2.Deterministic(true))
	if err != nil {
		return nil
	}
	return text
}
