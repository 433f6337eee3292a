package agui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
	jsonv2 "github.com/go-json-experiment/json"
)

// input is a RunAgentInput.
type input struct {
	ThreadID        string          `json:"threadId"`
	RunID           string          `json:"runId"`
	ProtocolVersion string          `json:"protocolVersion"`
	State           json.RawMessage `json:"state"`
	Messages        []message       `json:"messages"`
	Tools           []toolSpec      `json:"tools"`
	Context         []contextItem   `json:"context"`
	ForwardedProps  json.RawMessage `json:"forwardedProps"`
	Resume          []resumeEntry   `json:"resume,omitempty"`
}

type message struct {
	ID             string    `json:"id"`
	Role           string    `json:"role"`
	Content        any       `json:"content,omitempty"` // a string or parts
	ToolCalls      []rawCall `json:"toolCalls,omitempty"`
	ToolCallID     string    `json:"toolCallId,omitempty"`
	Error          string    `json:"error,omitempty"`
	EncryptedValue string    `json:"encryptedValue,omitempty"`
}

type rawCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type part struct {
	Type   string  `json:"type"`
	Text   string  `json:"text,omitempty"`
	Source *source `json:"source,omitempty"`
}

type source struct {
	Type     string `json:"type"`
	Value    any    `json:"value"`
	MimeType string `json:"mimeType,omitempty"`
}

type toolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type contextItem struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

type resumeEntry struct {
	InterruptID string          `json:"interruptId"`
	Status      string          `json:"status"` // resolved, cancelled
	Payload     json.RawMessage `json:"payload,omitzero"`
}

// encode returns the body of a run with all messages but the first known ones.
func (in input) encode(turn backend.Turn, known int) ([]byte, error) {
	in.Resume = resume(turn.Messages)
	c := conversation{thread: in.ThreadID, sent: map[string]bool{}, calls: map[string]backend.Call{}, settled: map[string]bool{}}
	c.settle(turn.Messages, in.Resume)
	if turn.System != "" && known == 0 {
		c.add(message{ID: in.ThreadID + "-system", Role: "system", Content: turn.System})
	}
	for i, m := range turn.Messages {
		c.message(i, m)
		if i == known-1 {
			c.messages = nil
		}
	}
	in.Messages, in.Tools, in.Context = append([]message{}, c.messages...), []toolSpec{}, []contextItem{}
	in.State, in.ForwardedProps = json.RawMessage("{}"), json.RawMessage("{}")
	for _, t := range turn.Tools {
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		in.Tools = append(in.Tools, toolSpec{Name: t.Name, Description: t.Description, Parameters: schema})
	}
	if err := in.forward(turn); err != nil {
		return nil, err
	}
	body, err := jsonv2.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode the run: %w", err)
	}
	return body, nil
}

// forward passes the context of the request and the model to the agent.
func (in *input) forward(turn backend.Turn) error {
	props := map[string]any{}
	if turn.Model != "" {
		props["model"] = turn.Model
	}
	if len(turn.Options) > 0 {
		var options struct {
			Context json.RawMessage `json:"context"`
		}
		if err := jsonv2.Unmarshal(turn.Options, &options); err != nil {
			return fmt.Errorf("options of the turn: %w", err)
		}
		if len(options.Context) > 0 {
			props["context"] = options.Context
		}
	}
	text, err := jsonv2.Marshal(props, jsonv2.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode the context of the request: %w", err)
	}
	in.ForwardedProps = text
	return nil
}

// conversation is the messages of a run. Their ids stay the same from run to run: an agent with its own memory recognises them.
type conversation struct {
	thread   string
	messages []message
	sent     map[string]bool         // calls, by the agent's ids
	calls    map[string]backend.Call // by our ids
	settled  map[string]bool         // calls that have a result, or get a decision with this run, by the agent's ids
}

// settle notes the calls of interrupts that have a result, or get a decision with this run. The result of any other is its
// decision: a conversation in which a call has no result is refused by many models.
func (c *conversation) settle(messages []backend.Message, resumed []resumeEntry) {
	notes := map[string]note{}
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Call:
				notes[p.ID] = read(p.Signature)
			case backend.Result:
				n := notes[p.ID]
				now := slices.ContainsFunc(resumed, func(e resumeEntry) bool { return e.InterruptID == n.Interrupt })
				if n.ID != "" && (n.Interrupt == "" || now) {
					c.settled[n.ID] = true
				}
			}
		}
	}
}

func (c *conversation) add(m message) { c.messages = append(c.messages, m) }

// message adds the messages for one contribution.
func (c *conversation) message(index int, m backend.Message) {
	if m.Role == backend.User {
		c.add(message{ID: c.id(index, 0), Role: "user", Content: content(m.Parts)})
		return
	}
	for i, p := range m.Parts {
		switch p := p.(type) {
		case backend.Text:
			c.add(message{ID: cmp.Or(read(p.Signature).ID, c.id(index, i)), Role: "assistant", Content: p.Text})
		case backend.Thinking:
			n := read(p.Signature)
			c.add(message{ID: cmp.Or(n.ID, c.id(index, i)), Role: "reasoning", Content: p.Text, EncryptedValue: n.Encrypted})
		case backend.Call:
			c.call(p)
		case backend.Result:
			c.result(p)
		}
	}
}

func (c *conversation) id(index, part int) string {
	return c.thread + "-" + strconv.Itoa(index) + "-" + strconv.Itoa(part)
}

// call adds a call to the message that it belongs to. An interrupt is not a call of the agent, unless it is about one.
func (c *conversation) call(p backend.Call) {
	c.calls[p.ID] = p
	n := read(p.Signature)
	callID := cmp.Or(n.ID, p.ID)
	if n.Interrupt != "" && n.ID == "" || c.sent[callID] {
		return
	}
	c.sent[callID] = true
	one := rawCall{ID: callID, Type: "function", Function: function{Name: p.Name, Arguments: cmp.Or(string(p.Args), "{}")}}
	parent := cmp.Or(n.Message, callID)
	if last := len(c.messages) - 1; last >= 0 && c.messages[last].ID == parent && c.messages[last].Role == "assistant" {
		c.messages[last].ToolCalls = append(c.messages[last].ToolCalls, one)
		return
	}
	c.add(message{ID: parent, Role: "assistant", ToolCalls: []rawCall{one}})
}

// result adds the result of a call. The answer to an interrupt is part of resume.
func (c *conversation) result(p backend.Result) {
	n := read(c.calls[p.ID].Signature)
	if n.Interrupt != "" && (n.ID == "" || c.settled[n.ID]) {
		return
	}
	callID := cmp.Or(n.ID, p.ID)
	m := message{ID: callID + "-result", Role: "tool", ToolCallID: callID, Content: p.Content}
	if p.Status != event.ToolSuccess {
		m.Error = string(p.Status)
	}
	c.add(m)
}

// content is the content of a user's message: a string if it is text alone.
func content(parts []backend.Part) any {
	texts := slices.IndexFunc(parts, func(p backend.Part) bool { _, text := p.(backend.Text); return !text }) < 0
	if texts && len(parts) == 1 {
		return parts[0].(backend.Text).Text
	}
	list := []part{}
	for _, p := range parts {
		switch p := p.(type) {
		case backend.Text:
			list = append(list, part{Type: "text", Text: p.Text})
		case backend.Media:
			list = append(list, mediaOf(p.Input))
		}
	}
	return list
}

func mediaOf(p event.InputPart) part {
	one := part{Type: "document", Source: &source{Type: "url", Value: p.URL, MimeType: p.MediaType}}
	switch p.Type {
	case media.Image:
		one.Type = "image"
	case event.ContentText:
		return part{Type: "text", Text: p.Text}
	}
	if len(p.Data) > 0 {
		one.Source.Type, one.Source.Value = "data", p.Data
	}
	return one
}
