package langgraph

import (
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// message is a message of a graph in LangChain's format, or a chunk of one. Members that graphs may fill as they like have no type.
type message struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	ToolCallID string          `json:"tool_call_id"`
	Status     string          `json:"status"`

	ToolCalls  []toolCall      `json:"tool_calls"`
	CallChunks []toolCallChunk `json:"tool_call_chunks"`
	Usage      *usage          `json:"usage_metadata"`
	Kwargs     map[string]any  `json:"additional_kwargs"`
	Response   map[string]any  `json:"response_metadata"`
}

type toolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type toolCallChunk struct {
	Index *int   `json:"index"`
	ID    string `json:"id"`
	Name  string `json:"name"`
	Args  string `json:"args"`
}

type usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Input        struct {
		CacheRead     int64 `json:"cache_read"`
		CacheCreation int64 `json:"cache_creation"`
	} `json:"input_token_details"`
	Output struct {
		Reasoning int64 `json:"reasoning"`
	} `json:"output_token_details"`
}

// The kinds of messages that count.
const (
	typeAI      = "ai"
	typeAIChunk = "AIMessageChunk"
	typeTool    = "tool"
	typeHuman   = "human"
)

// decodeMessage reads a message; false for one of another form.
func decodeMessage(text json.RawMessage) (m message, ok bool) {
	return m, jsonv2.Unmarshal(text, &m) == nil
}

// block is a part of the content of a message.
type block struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Reasoning string `json:"reasoning"`
	Thinking  string `json:"thinking"`
}

// parts returns the text and the reasoning of the content. Blocks of other kinds are left out.
func (m message) parts() (text, reasoning string) {
	reasoning, _ = m.Kwargs["reasoning_content"].(string)
	if jsonv2.Unmarshal(m.Content, &text) == nil {
		return text, reasoning
	}
	text = ""
	var blocks []json.RawMessage
	if jsonv2.Unmarshal(m.Content, &blocks) != nil {
		return "", reasoning
	}
	var all strings.Builder
	for _, b := range blocks {
		var one block
		switch {
		case jsontext.Value(b).Kind() == '"' && jsonv2.Unmarshal(b, &text) == nil:
			all.WriteString(text)
		case jsonv2.Unmarshal(b, &one) != nil:
		case one.Type == "text" || one.Type == "text_delta":
			all.WriteString(one.Text)
		case one.Type == "reasoning" || one.Type == "thinking":
			reasoning += one.Reasoning + one.Thinking
		}
	}
	return all.String(), reasoning
}

// output is the content of a tool's message as text: JSON for what is not text.
func (m message) output() string {
	if text, _ := m.parts(); text != "" || len(m.Content) == 0 {
		return text
	}
	if text := string(m.Content); text != `""` && text != "[]" && text != "null" {
		return text
	}
	return ""
}

// model is the name of the model that has answered; "" = not known.
func (m message) model() string {
	for _, name := range []string{"model_name", "model"} {
		if text, ok := m.Response[name].(string); ok && text != "" {
			return text
		}
	}
	return ""
}

// long reports whether the answer has reached the limit of its length.
func (m message) long() bool {
	return m.Response["finish_reason"] == "length" || m.Response["stop_reason"] == "max_tokens"
}

func (u *usage) event() event.Usage {
	if u == nil {
		return event.Usage{}
	}
	return event.Usage{
		InputTokens: max(0, u.InputTokens), OutputTokens: max(0, u.OutputTokens), ReasoningTokens: max(0, u.Output.Reasoning),
		CachedInputTokens: max(0, u.Input.CacheRead), CacheWriteTokens: max(0, u.Input.CacheCreation),
	}
}

// object returns arguments; an empty object for what is not an object.
func object(args []byte) json.RawMessage {
	if v := jsontext.Value(args); v.IsValid() && v.Kind() == '{' {
		return json.RawMessage(args)
	}
	return json.RawMessage("{}")
}
