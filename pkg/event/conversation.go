package event

import "encoding/json"

// HistoryMessage is a message of a conversation that the client has kept.
type HistoryMessage struct {
	ID      string       `json:"id,omitempty"` // the client's own
	Role    string       `json:"role"`
	Content InputContent `json:"content,omitzero"`

	ToolCalls  []HistoryCall `json:"toolCalls,omitempty"`  // of an assistant message
	ToolCallID string        `json:"toolCallId,omitempty"` // of a tool message: the call that it answers
	Status     ToolStatus    `json:"status,omitempty"`     // of a tool message; "" = success
}

// HistoryCall is a tool call of an assistant message.
type HistoryCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitzero"` // an object; nil = {}
}

// RequestTool is a tool that the client of a request runs.
type RequestTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitzero"` // JSON Schema of the arguments; nil = any object
}
