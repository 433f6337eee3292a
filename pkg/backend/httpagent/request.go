package httpagent

import (
	"encoding/json"
	"fmt"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
)

// request is the body of a turn: schemas/agent/request.json.
type request struct {
	RequestID string               `json:"requestId"`
	ThreadID  string               `json:"threadId"`
	AgentID   string               `json:"agentId"`
	UserID    string               `json:"userId,omitempty"`
	Attempt   int                  `json:"attempt"`
	Session   string               `json:"session,omitempty"`
	Known     int                  `json:"known"`
	Model     string               `json:"model,omitempty"`
	System    string               `json:"system,omitempty"`
	Messages  []message            `json:"messages"`
	Tools     []toolSpec           `json:"tools"`
	Context   json.RawMessage      `json:"context,omitzero"`
	Options   event.RequestOptions `json:"options,omitzero"`
	MaxTokens int                  `json:"maxTokens,omitzero"`
	Limits    limits               `json:"limits,omitzero"`
}

type limits struct {
	Turns   int     `json:"turns,omitzero"`
	Tokens  int64   `json:"tokens,omitzero"`
	CostUSD float64 `json:"costUsd,omitzero"`
}

type message struct {
	Role    backend.Role `json:"role"`
	Content []any        `json:"content"` // of text, thinking, toolCall, toolResult and [event.InputPart]
}

type text struct {
	Type string `json:"type"` // text, thinking
	Text string `json:"text"`
}

type toolCall struct {
	Type string          `json:"type"`
	ID   string          `json:"id"`
	Ref  string          `json:"ref,omitempty"` // the id that the agent gave the call
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type toolResult struct {
	Type    string            `json:"type"`
	ID      string            `json:"id"`
	Ref     string            `json:"ref,omitempty"`
	Name    string            `json:"name"`
	Status  event.ToolStatus  `json:"status"`
	Content string            `json:"content"`
	Media   []event.InputPart `json:"media,omitempty"`
}

type toolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	Client      bool            `json:"client,omitzero"`
}

// encode returns the body of a turn.
func encode(turn backend.Turn, session string) ([]byte, error) {
	r := request{
		RequestID: turn.RequestID, ThreadID: turn.ThreadID, AgentID: turn.AgentID, UserID: turn.UserID, Attempt: max(1, turn.Attempt),
		Session: session, Model: turn.Model, System: turn.System, Messages: messages(turn.Messages), Tools: tools(turn.Tools),
		Options: turn.Request, MaxTokens: turn.MaxTokens,
		Limits: limits{Turns: turn.Limits.Turns, Tokens: turn.Limits.Tokens, CostUSD: max(0, turn.Limits.CostUSD)},
	}
	if session != "" {
		r.Known = min(turn.Known, len(turn.Messages))
	}
	if len(turn.Options) > 0 {
		var options struct {
			Context json.RawMessage `json:"context"`
		}
		if err := jsonv2.Unmarshal(turn.Options, &options); err != nil {
			return nil, fmt.Errorf("options of the turn: %w", err)
		}
		r.Context = options.Context
	}
	body, err := jsonv2.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the turn: %w", err)
	}
	return body, nil
}

func tools(specs []tool.Spec) []toolSpec {
	list := make([]toolSpec, 0, len(specs))
	for _, s := range specs {
		schema := s.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		list = append(list, toolSpec{Name: s.Name, Description: s.Description, Schema: schema, Client: s.Client})
	}
	return list
}

func messages(conversation []backend.Message) []message {
	refs := map[string]string{}
	list := make([]message, 0, len(conversation))
	for _, m := range conversation {
		one := message{Role: m.Role, Content: make([]any, 0, len(m.Parts))}
		for _, p := range m.Parts {
			one.Content = append(one.Content, part(p, refs))
		}
		list = append(list, one)
	}
	return list
}

// part is a part of a message. Refs has the agent's ids of calls by ours.
func part(p backend.Part, refs map[string]string) any {
	switch p := p.(type) {
	case backend.Text:
		return text{"text", p.Text}
	case backend.Thinking:
		return text{"thinking", p.Text}
	case backend.Call:
		refs[p.ID] = p.Signature
		args := p.Args
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		return toolCall{Type: "tool_call", ID: p.ID, Ref: p.Signature, Name: p.Name, Args: args}
	case backend.Result:
		return toolResult{
			Type: "tool_result", ID: p.ID, Ref: refs[p.ID], Name: p.Name, Status: p.Status, Content: p.Content, Media: p.Media,
		}
	case backend.Media:
		return p.Input
	default:
		return text{"text", fmt.Sprintf("[%T]", p)}
	}
}
