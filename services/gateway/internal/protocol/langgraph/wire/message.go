package wire

import (
	"encoding/base64"
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
)

// Message is a message in LangChain's format. In the stream mode messages-tuple it is a chunk, which the client adds to the
// chunks before it that have its id.
type Message struct {
	Type       string          `json:"type"` // human, ai, tool, system; AIMessageChunk
	ID         string          `json:"id"`
	Content    json.RawMessage `json:"content"` // a string, or blocks
	Name       string          `json:"name,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Status     string          `json:"status,omitempty"` // of a tool message: success, error

	ToolCalls      []ToolCall      `json:"tool_calls,omitempty"`
	ToolCallChunks []ToolCallChunk `json:"tool_call_chunks,omitempty"`
	Usage          *UsageMetadata  `json:"usage_metadata,omitempty"`

	AdditionalKwargs Kwargs   `json:"additional_kwargs"`
	ResponseMetadata struct{} `json:"response_metadata"`
}

// Kwargs is what a message has in addition.
type Kwargs struct {
	Reasoning string `json:"reasoning_content,omitempty"` // as LangChain's integrations of reasoning models name it
}

// ToolCall is a call in a message of the agent.
type ToolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"` // an object
	Type string          `json:"type"` // tool_call
}

// ToolCallChunk is a part of a call. The first one of a call has its id and name.
type ToolCallChunk struct {
	Index int    `json:"index"` // of the call in its message
	ID    string `json:"id,omitempty"`
	Name  string `json:"name,omitempty"`
	Args  string `json:"args"`
	Type  string `json:"type"` // tool_call_chunk
}

// UsageMetadata counts the tokens of one turn of the model.
type UsageMetadata struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
}

// Step is a step of the agent's plan, in the form of LangChain's list of them.
type Step struct {
	Content string `json:"content"`
	Status  string `json:"status"` // pending, in_progress, completed
}

// The types of messages.
const (
	typeHuman   = "human"
	typeAI      = "ai"
	typeTool    = "tool"
	typeSystem  = "system"
	typeAIChunk = "AIMessageChunk"
)

func usageOf(u event.Usage) *UsageMetadata {
	return &UsageMetadata{u.InputTokens, u.OutputTokens, u.InputTokens + u.OutputTokens}
}

// block is a part of the content of a message.
type block struct {
	Type     string `json:"type"` // text, image_url, file
	Text     string `json:"text,omitempty"`
	ImageURL *link  `json:"image_url,omitempty"`

	SourceType string `json:"source_type,omitempty"` // of a file: url, base64
	URL        string `json:"url,omitempty"`
	Data       []byte `json:"data,omitempty"`
	MIMEType   string `json:"mime_type,omitempty"`
}

type link struct {
	URL string `json:"url"`
}

// contentOf returns the content of a message of a thread: a string if it is text alone.
func contentOf(content event.InputContent, threadID string) json.RawMessage {
	if plain(content) {
		return encode(content.Text())
	}
	blocks := make([]block, 0, len(content))
	for _, p := range content {
		blocks = append(blocks, blockOf(p, threadID))
	}
	return encode(blocks)
}

func plain(content event.InputContent) bool {
	for _, p := range content {
		if p.Type != event.ContentText {
			return false
		}
	}
	return true
}

// blockOf returns a block. An object is named by its path on the gateway.
func blockOf(p event.InputPart, threadID string) block {
	if p.Type == event.ContentText {
		return block{Type: "text", Text: p.Text}
	}
	address := p.URL
	if p.Ref != nil {
		address = "/v1/threads/" + threadID + "/objects/" + p.Ref.Object
	}
	switch {
	case p.Type == media.Image && address != "":
		return block{Type: "image_url", ImageURL: &link{address}}
	case p.Type == media.Image:
		return block{Type: "image_url", ImageURL: &link{"data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)}}
	case address != "":
		return block{Type: "file", SourceType: "url", URL: address, MIMEType: p.MediaType}
	default:
		return block{Type: "file", SourceType: "base64", Data: p.Data, MIMEType: p.MediaType}
	}
}

// toolMessage returns the message of a tool's result. Its content is the summary, as in all protocols, and the media.
func toolMessage(b event.ToolResult, name, threadID string) Message {
	m := Message{
		Type: typeTool, ID: "result-" + b.ToolCallID, ToolCallID: b.ToolCallID, Name: name, Status: "success",
		Content: encode(b.Summary),
	}
	if b.Status != event.ToolSuccess {
		m.Status = "error"
	}
	if len(b.Media) > 0 {
		m.Content = contentOf(append(event.InputContent{{Type: event.ContentText, Text: b.Summary}}, b.Media...), threadID)
	}
	return m
}
