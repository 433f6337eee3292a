package agui

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// interrupt is what the agent needs from the user.
type interrupt struct {
	ID             string          `json:"id"`
	Reason         string          `json:"reason"`
	Message        string          `json:"message"`
	ToolCallID     string          `json:"toolCallId"`
	ResponseSchema json.RawMessage `json:"responseSchema"`
}

// schema is the part of a response's JSON Schema that says where the answer goes.
type schema struct {
	Type       any `json:"type"`
	Properties map[string]struct {
		Type any `json:"type"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// member returns the member of a response that has a type, the required ones first; "" without one.
func (s schema) member(kind string) string {
	for _, name := range s.Required {
		if s.Properties[name].Type == kind {
			return name
		}
	}
	if len(s.Properties) == 1 {
		for name, p := range s.Properties {
			if p.Type == kind {
				return name
			}
		}
	}
	return ""
}

// ask begins a call for an interrupt: an approval if the response is a decision, otherwise a question.
func (r *reader) ask(i interrupt) error {
	if i.ID == "" {
		return r.agent.Broke("an interrupt has no id")
	}
	var s schema
	if jsonv2.Unmarshal(i.ResponseSchema, &s) != nil {
		s = schema{} // a schema of another form does not say where the answer goes
	}
	n := note{Interrupt: i.ID}
	if waits, ok := r.calls[i.ToolCallID]; ok {
		n.ID, n.Message = waits.id, waits.parent
	}
	decides := s.member("boolean")
	if n.ID != "" && (decides != "" || len(i.ResponseSchema) == 0) || decides != "" && s.member("string") == "" {
		n.Member = cmp.Or(decides, "approved")
		return r.askApproval(i, n)
	}
	if waits, ok := r.calls[i.ToolCallID]; ok {
		if err := r.suspend(waits); err != nil {
			return err
		}
	}
	n.ID, n.Message, n.Member = "", "", s.member("string")
	args, err := jsonv2.Marshal(map[string]string{"question": cmp.Or(i.Message, i.Reason, "the agent needs an answer")})
	if err != nil {
		return err
	}
	return r.call("ask_user", backend.GateInput, string(args), n)
}

// askApproval asks whether the agent may run the call of an interrupt.
func (r *reader) askApproval(i interrupt, n note) error {
	name, args := cmp.Or(i.Reason, "approval"), "{}"
	if waits, ok := r.calls[i.ToolCallID]; ok && n.ID != "" {
		name, args = waits.name, string(waits.arguments())
		if err := r.suspend(waits); err != nil {
			return err
		}
	} else if i.Message != "" {
		text, err := jsonv2.Marshal(map[string]string{"message": i.Message})
		if err != nil {
			return err
		}
		args = string(text)
	}
	return r.call(name, backend.GateAgentApproval, args, n)
}

// suspend ends a call that needs the user. It may have been reported as running.
func (r *reader) suspend(c *call) error {
	running := c.running && !c.handled
	c.handled = true
	if !running {
		return nil
	}
	return r.emit(backend.ToolEnded{ID: c.id, Status: event.ToolDenied, Content: "it waits for the approval of the user"})
}

// resume returns the answers to the interrupts of the last run: those after the agent's last message.
func resume(messages []backend.Message) (entries []resumeEntry) {
	calls := map[string]note{}
	for _, m := range messages {
		if m.Role == backend.Assistant {
			entries = nil
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Call:
				calls[p.ID] = read(p.Signature)
			case backend.Result:
				if n := calls[p.ID]; n.Interrupt != "" {
					entries = append(entries, n.answer(p))
				}
			}
		}
	}
	return entries
}

// answer returns what an action became, in the form that the agent has asked for.
func (n note) answer(p backend.Result) resumeEntry {
	e := resumeEntry{InterruptID: n.Interrupt, Status: "resolved"}
	decision := n.Member != "" && p.Name != "ask_user"
	var payload any
	switch {
	case decision && p.Status == event.ToolSuccess:
		payload = map[string]any{n.Member: true}
	case decision && strings.HasPrefix(p.Content, "the user denied"):
		payload = map[string]any{n.Member: false, "reason": p.Content}
	case p.Status != event.ToolSuccess:
		e.Status = "cancelled"
		return e
	case jsontext.Value(p.Content).IsValid() && jsontext.Value(p.Content).Kind() == '{':
		payload = json.RawMessage(p.Content)
	case n.Member != "":
		payload = map[string]any{n.Member: p.Content}
	default:
		payload = p.Content
	}
	text, err := jsonv2.Marshal(payload, jsonv2.Deterministic(true))
	if err != nil { // a text that is not UTF-8, which the log does not have
		e.Status = "cancelled"
		return e
	}
	e.Payload = text
	return e
}
