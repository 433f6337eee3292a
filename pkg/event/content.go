package event

import "encoding/json"

// The types of content blocks (agent event protocol, Content Blocks).
const (
	ContentText       = "text"
	ContentThinking   = "thinking"
	ContentToolUse    = "tool_use"
	ContentToolResult = "tool_result"
)

// Content is one block of an answer, as done.content lists it. Type says which of the other members are set.
type Content struct {
	Type       string          `json:"type"`
	Text       string          `json:"text,omitempty"`       // text
	Thinking   string          `json:"thinking,omitempty"`   // thinking
	ToolCallID string          `json:"toolCallId,omitempty"` // tool_use, tool_result
	Name       string          `json:"name,omitempty"`       // tool_use, tool_result
	Args       json.RawMessage `json:"args,omitzero"`        // tool_use: an object
	Status     ToolStatus      `json:"status,omitempty"`     // tool_result
	Summary    string          `json:"summary,omitempty"`    // tool_result
	Media      []InputPart     `json:"media,omitempty"`      // tool_result: images and files that the tool gave
	Extra      Members         `json:",embed"`
}
