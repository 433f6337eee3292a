package a2a

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// progress shows a message of a task that works: as thinking, since it is not part of the output. An agent of agentbus
// names its kind.
func (r *reader) progress(m *message) error {
	if m == nil || r.said[m.ID] {
		return nil
	}
	if m.ID != "" {
		r.said[m.ID] = true
	}
	if err := r.endText(); err != nil {
		return err
	}
	of := about(m.Metadata)
	if of.Kind == "notice" && m.text() != "" {
		r.news++
		return r.emit(backend.Warning(m.text()))
	}
	if text := m.text(); text != "" {
		r.news++
		if err := r.emit(backend.ThinkingDelta(text)); err != nil {
			return err
		}
		if err := r.emit(backend.Signature(note{Task: r.place.Task}.String())); err != nil {
			return err
		}
	}
	for _, p := range m.Parts {
		if len(p.Data) == 0 {
			continue
		}
		if err := r.data(of, p.Data); err != nil {
			return err
		}
	}
	return nil
}

// data shows the data of a message: what an agent of agentbus means by it, or a custom event.
func (r *reader) data(of metadata, data json.RawMessage) error {
	var known struct {
		ID      string           `json:"toolCallId"`
		Tool    string           `json:"tool"`
		Args    json.RawMessage  `json:"arguments"`
		Status  event.ToolStatus `json:"status"`
		Summary string           `json:"summary"`
		Steps   []event.PlanStep `json:"steps"`
	}
	if jsonv2.Unmarshal(data, &known) != nil {
		of.Kind = ""
	}
	switch {
	case of.Kind == "tool_call" && known.ID != "" && known.Tool != "":
		return r.start(known.ID, known.Tool, known.Args)
	case of.Kind == "tool_result" && known.ID != "":
		if err := r.start(known.ID, cmp.Or(known.Tool, "tool"), nil); err != nil || r.running[known.ID] == "" {
			return err
		}
		r.running[known.ID] = ""
		return r.emit(backend.ToolEnded{ID: known.ID, Status: known.Status, Content: known.Summary, Summary: known.Summary})
	case of.Kind == "plan" && len(known.Steps) > 0:
		r.news++
		return r.emit(backend.Plan{Steps: known.Steps})
	case of.Kind == "custom":
		return r.custom(of.Type, data)
	}
	return r.custom("a2a.status", data)
}

// start reports a tool that an agent of agentbus runs, once.
func (r *reader) start(callID, tool string, args json.RawMessage) error {
	if _, started := r.running[callID]; started {
		return nil
	}
	if jsontext.Value(args).Kind() != '{' {
		args = nil
	}
	r.running[callID] = tool
	r.news++
	return r.emit(backend.ToolStarted{ID: callID, Name: tool, Args: args})
}

// file shows a part of an artifact that is not text, once.
func (r *reader) file(a artifact, one *shown, p part) error {
	if one.seen++; one.seen <= one.files {
		return nil
	}
	one.files = one.seen
	if err := r.endText(); err != nil {
		return err
	}
	return r.custom("a2a.artifact", raw(struct {
		ID   string `json:"artifactId"`
		Name string `json:"name,omitempty"`
		Part part   `json:"part"`
	}{a.ID, a.Name, p}))
}

// custom emits an event of the application. Data that is not an object is in a member.
func (r *reader) custom(name string, data json.RawMessage) error {
	if jsontext.Value(data).Kind() != '{' {
		data = raw(map[string]json.RawMessage{"value": data})
	}
	if len(data) > event.MaxCustomBytes {
		return r.emit(backend.Warning("the agent sent a file that is too large for an event"))
	}
	if _, err := event.NewCustom(name, data); err != nil {
		return nil //nolint:nilerr // the log has no such event: a name of ours
	}
	r.news++
	return r.emit(backend.Custom{Type: name, Data: data})
}

// question is how an agent of agentbus asks for an action.
type question struct {
	ActionID string                 `json:"actionId"`
	Kind     event.ContinuationKind `json:"kind"`
	Question string                 `json:"question"`
	Tool     string                 `json:"tool"`
	Args     json.RawMessage        `json:"arguments"`
}

// ask ends the turn with what the task needs from the user: its actions, or its message as a question.
func (r *reader) ask(m *message) error {
	if err := r.endText(); err != nil {
		return err
	}
	n := note{Task: r.place.Task, Message: "?"}
	if m != nil {
		n.Message = cmp.Or(m.ID, n.Message)
		for _, p := range m.Parts {
			var q question
			if len(p.Data) == 0 || jsonv2.Unmarshal(p.Data, &q) != nil || q.ActionID == "" {
				continue
			}
			if err := r.askAction(q, n); err != nil {
				return err
			}
		}
	}
	if r.asked == 0 {
		text := cmp.Or(m.text(), "the agent needs an answer")
		if err := r.call("ask_user", backend.GateInput, raw(map[string]string{"question": text}), n); err != nil {
			return err
		}
	}
	return r.finish()
}

// askAction asks for an action of an agent of agentbus.
func (r *reader) askAction(q question, n note) error {
	n.Action, n.Kind = q.ActionID, q.Kind
	for _, callID := range slices.Sorted(maps.Keys(r.running)) {
		if tool := r.running[callID]; tool == "" || tool != q.Tool {
			continue
		}
		r.running[callID] = ""
		if err := r.emit(backend.ToolEnded{ID: callID, Status: event.ToolDenied, Content: "it waits for the user"}); err != nil {
			return err
		}
	}
	args := q.Args
	if jsontext.Value(args).Kind() != '{' {
		args = json.RawMessage("{}")
	}
	switch q.Kind {
	case event.ContinueApproval:
		return r.call(cmp.Or(q.Tool, "approval"), backend.GateAgentApproval, args, n)
	case event.ContinueTool:
		return r.call(cmp.Or(q.Tool, "tool"), backend.GateClient, args, n)
	default:
		return r.call("ask_user", backend.GateInput, raw(map[string]string{"question": cmp.Or(q.Question, "the agent needs an answer")}), n)
	}
}

// call emits a whole call whose result the next turn has.
func (r *reader) call(name string, gate backend.Gate, args json.RawMessage, n note) error {
	i := r.asked
	r.asked++
	r.news++
	for _, c := range []backend.Chunk{
		backend.CallStart{Index: i, Name: name, Gate: gate}, backend.CallSignature{Index: i, Signature: n.String()},
		backend.CallDelta{Index: i, Args: string(args)},
	} {
		if err := r.emit(c); err != nil {
			return err
		}
	}
	return nil
}
