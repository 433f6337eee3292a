package tarko

import (
	"encoding/json"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// flat converts an event to the flat vocabulary; nil = it has no such type.
func flat(fact Payload) Payload {
	switch f := fact.(type) {
	case AssistantMessageStart, ToolExecutionStart, ToolExecutionDelta:
		return nil
	case Error:
		details, err := jsonv2.Marshal(struct {
			Code        string          `json:"code"`
			Recoverable bool            `json:"recoverable"`
			Details     json.RawMessage `json:"details,omitzero"`
		}{f.Code, f.Recoverable, f.Details}, marshalOptions)
		if err != nil {
			details = nil // a code is plain text
		}
		return System{Level: LevelError, Message: f.Error, Details: details}
	case Custom:
		return f.flat()
	default:
		return fact
	}
}

// nested converts an event to the nested vocabulary; nil = it is omitted.
func nested(fact Payload) Payload {
	switch f := fact.(type) {
	case UserMessage:
		f.Role = "user"
		return f
	case AssistantMessage:
		f.Role = "assistant"
		return f
	case AssistantStreamingMessage:
		if f.IsComplete {
			return nil // the next message has a start event
		}
		return AssistantMessageDelta{Delta: f.Content, MessageID: f.MessageID}
	case ToolCall:
		return FunctionCall{
			ID: f.ToolCallID, Name: f.Name, Arguments: f.Arguments, Kind: "function", StartTime: f.StartTime, Tool: f.Tool,
		}
	case ToolResult:
		return FunctionResult{
			ToolCallID: f.ToolCallID, Name: f.Name, Content: f.text(), Success: f.Error == "", Error: f.Error,
			ElapsedMs: f.ElapsedMs, ProcessedContent: f.ProcessedContent, Extra: f.Extra,
		}
	case Custom:
		return f.renamed()
	default:
		return fact
	}
}

// text returns the text of a result, without its images and files.
func (r ToolResult) text() string {
	if len(r.ProcessedContent) == 0 {
		return textOf(r.Content)
	}
	if r.ProcessedContent[0].Type == PartText {
		return r.ProcessedContent[0].Text
	}
	return ""
}

// textOf returns a JSON string unquoted, and any other value as JSON.
func textOf(v json.RawMessage) string {
	var text string
	if jsontext.Value(v).Kind() != jsontext.KindString || jsonv2.Unmarshal(v, &text) != nil {
		return string(v)
	}
	return text
}

// Custom is a custom event of an application (Custom Event Types of the Agent Protocol; ExtendedEventMapping of Agent
// TARS).
type Custom struct {
	Name Type
	Data json.RawMessage // an object
}

// Type implements [Payload].
func (c Custom) Type() Type { return c.Name }

// MarshalJSON returns the data alone.
func (c Custom) MarshalJSON() ([]byte, error) {
	if len(c.Data) == 0 {
		return []byte("{}"), nil
	}
	return c.Data, nil
}

// renamed returns c with another type if its type is reserved.
func (c Custom) renamed() Custom {
	if reserved(c.Name) {
		c.Name = "custom_" + c.Name
	}
	return c
}

// flat wraps the data in a field if it cannot be merged with the fields that all events have.
func (c Custom) flat() Custom {
	c = c.renamed()
	if fitsFlat(c.Data) {
		return c
	}
	c.Data = append(append([]byte(`{"data":`), c.Data...), '}')
	return c
}

func fitsFlat(data json.RawMessage) bool {
	if len(data) == 0 {
		return true
	}
	var envelope struct {
		ID        json.RawMessage `json:"id"`
		Type      json.RawMessage `json:"type"`
		Timestamp json.RawMessage `json:"timestamp"`
	}
	if jsontext.Value(data).Kind() != jsontext.KindBeginObject || jsonv2.Unmarshal(data, &envelope) != nil {
		return false
	}
	return envelope.ID == nil && envelope.Type == nil && envelope.Timestamp == nil
}
