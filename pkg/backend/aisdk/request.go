package aisdk

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// body is what useChat sends, and the instructions, the tools and the context.
type body struct {
	ID        string          `json:"id"`
	Trigger   string          `json:"trigger"`
	MessageID string          `json:"messageId,omitempty"` // of the message that the answer continues
	Messages  []message       `json:"messages"`
	Message   *message        `json:"message,omitzero"` // the last one, for an agent that remembers the others
	System    string          `json:"system,omitempty"`
	Tools     map[string]spec `json:"tools,omitempty"`
	Model     string          `json:"model,omitempty"`
	Context   json.RawMessage `json:"context,omitzero"`
}

type spec struct {
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// message is a UI message.
type message struct {
	ID    string `json:"id"`
	Role  string `json:"role"`
	Parts []part `json:"parts"`

	newest int // index of the newest message of ours in it
}

// part is a part of a UI message. Type says which members it has.
type part struct {
	Type             string          `json:"type"`
	Text             *string         `json:"text,omitzero"`
	ProviderMetadata json.RawMessage `json:"providerMetadata,omitzero"`

	MediaType string `json:"mediaType,omitempty"`
	Filename  string `json:"filename,omitempty"`
	URL       string `json:"url,omitempty"`

	ToolName             string          `json:"toolName,omitempty"`
	ToolCallID           string          `json:"toolCallId,omitempty"`
	State                string          `json:"state,omitempty"`
	Input                json.RawMessage `json:"input,omitzero"`
	Output               json.RawMessage `json:"output,omitzero"`
	ErrorText            string          `json:"errorText,omitempty"`
	ProviderExecuted     bool            `json:"providerExecuted,omitzero"`
	CallProviderMetadata json.RawMessage `json:"callProviderMetadata,omitzero"`
	Approval             *approval       `json:"approval,omitzero"`
}

type approval struct {
	ID        string          `json:"id"`
	Approved  bool            `json:"approved"`
	Reason    string          `json:"reason,omitempty"`
	Signature string          `json:"signature,omitempty"`
	Input     json.RawMessage `json:"inputSchemaInput,omitzero"`
}

// conversation turns our messages into UI messages. All that the agent said between two messages of the user is one of them. Their
// ids stay the same from turn to turn.
type conversation struct {
	chat     string
	messages []message
	calls    map[string]backend.Call // by our ids
	places   map[string]place        // of calls, by the agent's ids
	pending  map[string]bool         // approvals that are given with this turn, by our ids of the calls
}

// place is where the part of a call is.
type place struct{ message, part int }

func newConversation(chat string, messages []backend.Message) *conversation {
	c := &conversation{
		chat: chat, calls: map[string]backend.Call{}, places: map[string]place{}, pending: answered(messages),
	}
	for i, m := range messages {
		c.add(i, m)
	}
	return c
}

// answered returns the calls whose results follow the agent's last message: decisions among them are for this turn.
func answered(messages []backend.Message) map[string]bool {
	calls := map[string]bool{}
	for _, m := range messages {
		if m.Role != backend.Tool {
			clear(calls)
		}
		for _, p := range m.Parts {
			if p, ok := p.(backend.Result); ok {
				calls[p.ID] = true
			}
		}
	}
	return calls
}

// ids returns the ids of the messages that an answer to the conversation does not continue.
func (c *conversation) ids() []string {
	ids := []string{}
	for i, m := range c.messages {
		if m.Role == "assistant" && i < len(c.messages)-1 {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// encode returns the body of a turn with all messages but those of the first known ones.
func (c *conversation) encode(turn backend.Turn, known int) ([]byte, error) {
	b := body{ID: c.chat, Trigger: "submit-message", Messages: []message{}, System: turn.System, Model: turn.Model}
	for _, m := range c.messages {
		if m.newest >= known {
			b.Messages = append(b.Messages, m)
		}
	}
	if last := len(b.Messages) - 1; last >= 0 {
		if b.Messages[last].Role == "assistant" {
			b.MessageID = b.Messages[last].ID
		}
		if known > 0 {
			b.Message = &b.Messages[last]
		}
	}
	for _, t := range turn.Tools {
		if b.Tools == nil {
			b.Tools = map[string]spec{}
		}
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		b.Tools[t.Name] = spec{Description: t.Description, Parameters: schema}
	}
	if len(turn.Options) > 0 {
		var options struct {
			Context json.RawMessage `json:"context"`
		}
		if err := jsonv2.Unmarshal(turn.Options, &options); err != nil {
			return nil, fmt.Errorf("options of the turn: %w", err)
		}
		b.Context = options.Context
	}
	text, err := jsonv2.Marshal(b, jsonv2.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode the turn: %w", err)
	}
	return text, nil
}

// add adds a message of ours.
func (c *conversation) add(index int, m backend.Message) {
	if m.Role == backend.User {
		one := message{ID: c.chat + "-" + strconv.Itoa(index), Role: "user", Parts: []part{}, newest: index}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Text:
				one.Parts = append(one.Parts, part{Type: "text", Text: &p.Text})
			case backend.Media:
				one.Parts = append(one.Parts, mediaOf(p.Input))
			}
		}
		c.messages = append(c.messages, one)
		return
	}
	said := c.assistant(index, m.Parts)
	if m.Role == backend.Assistant {
		said.Parts = append(said.Parts, part{Type: "step-start"})
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case backend.Text:
			said.Parts = append(said.Parts, part{Type: "text", Text: &p.Text, State: "done", ProviderMetadata: read(p.Signature).Metadata})
		case backend.Thinking:
			said.Parts = append(said.Parts, part{Type: "reasoning", Text: &p.Text, State: "done", ProviderMetadata: read(p.Signature).Metadata})
		case backend.Call:
			c.call(said, p)
		case backend.Result:
			c.result(p)
		}
	}
}

// assistant returns the message of the agent that a message of ours is part of.
func (c *conversation) assistant(index int, parts []backend.Part) *message {
	if last := len(c.messages) - 1; last >= 0 && c.messages[last].Role == "assistant" {
		c.messages[last].newest = index
		return &c.messages[last]
	}
	one := message{ID: c.chat + "-" + strconv.Itoa(index), Role: "assistant", newest: index}
	for _, p := range parts {
		if given := noteOf(p).Message; given != "" {
			one.ID = given
			break
		}
	}
	c.messages = append(c.messages, one)
	return &c.messages[len(c.messages)-1]
}

func noteOf(p backend.Part) note {
	switch p := p.(type) {
	case backend.Text:
		return read(p.Signature)
	case backend.Thinking:
		return read(p.Signature)
	case backend.Call:
		return read(p.Signature)
	default:
		return note{}
	}
}

// call adds the part of a call. A call that the agent ran after its approval completes the part of the approval.
func (c *conversation) call(said *message, p backend.Call) {
	c.calls[p.ID] = p
	n := read(p.Signature)
	callID := cmp.Or(n.ID, p.ID)
	if _, ok := c.places[callID]; ok {
		return
	}
	input := p.Args
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	one := part{
		Type: "tool-" + p.Name, ToolCallID: callID, State: "output-error", ErrorText: "the outcome of the call is unknown", Input: input,
		ProviderExecuted: n.Provider, CallProviderMetadata: n.Metadata,
	}
	if n.Dynamic || n.ID == "" {
		one.Type, one.ToolName = "dynamic-tool", p.Name
	}
	said.Parts = append(said.Parts, one)
	c.places[callID] = place{message: len(c.messages) - 1, part: len(said.Parts) - 1}
}

// result completes the part of a call with its result, or with the decision about it.
func (c *conversation) result(p backend.Result) {
	called, ok := c.calls[p.ID]
	if !ok {
		return
	}
	n := read(called.Signature)
	at, ok := c.places[cmp.Or(n.ID, p.ID)]
	if !ok {
		return
	}
	one := &c.messages[at.message].Parts[at.part]
	switch {
	case n.Approval != "":
		c.decide(one, n, p)
	case one.Approval != nil && !one.Approval.Approved:
		one.State, one.ErrorText = "output-denied", ""
	case p.Status == event.ToolSuccess:
		one.State, one.ErrorText, one.Output = "output-available", "", value(p.Content)
	default:
		one.State, one.ErrorText = "output-error", cmp.Or(p.Content, string(p.Status), "unknown")
	}
}

// decide completes the part of a call with the decision of the user. A call that was allowed in an earlier turn has its output in another
// result, or an unknown outcome.
func (c *conversation) decide(one *part, n note, p backend.Result) {
	a := &approval{ID: n.Approval, Approved: p.Status == event.ToolSuccess, Signature: n.Signature, Input: n.Input}
	if !a.Approved {
		a.Reason = strings.TrimPrefix(strings.TrimPrefix(p.Content, "the user denied this call"), ": ")
	}
	one.Approval = a
	switch {
	case c.pending[p.ID]:
		one.State, one.ErrorText = "approval-responded", ""
	case !a.Approved:
		one.State, one.ErrorText = "output-denied", ""
	}
}

// value returns an output as JSON: what is not JSON is a string.
func value(content string) json.RawMessage {
	if v := jsontext.Value(content); v.IsValid() {
		return json.RawMessage(content)
	}
	text, err := jsonv2.Marshal(strings.ToValidUTF8(content, "\uFFFD"))
	if err != nil {
		return json.RawMessage(`""`)
	}
	return text
}

// mediaOf returns an image or a file as a part.
func mediaOf(p event.InputPart) part {
	if p.Type == event.ContentText {
		return part{Type: "text", Text: &p.Text}
	}
	one := part{Type: "file", MediaType: cmp.Or(p.MediaType, "application/octet-stream"), Filename: p.Name, URL: p.URL}
	if len(p.Data) > 0 {
		one.URL = "data:" + one.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
	}
	return one
}
