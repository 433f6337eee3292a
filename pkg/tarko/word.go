package tarko

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// flat says a fact in S4's words; nil = it has none.
func flat(fact Payload) Payload {
	switch f := fact.(type) {
	case AssistantMessageStart, ToolExecutionStart, ToolExecutionDelta:
		return nil
	case Error:
		details, err := json.Marshal(map[string]any{"code": f.Code, "recoverable": f.Recoverable}, marshalOptions)
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

// nested says a fact in S0's words, or in S4's where S0 has none.
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
			return nil // the next message begins with a start of its own
		}
		return AssistantMessageDelta{Delta: f.Content, MessageID: f.MessageID}
	case ToolCall:
		return FunctionCall{
			ID: f.ToolCallID, Name: f.Name, Arguments: f.Arguments, Kind: "function", StartTime: f.StartTime, Tool: f.Tool,
		}
	case ToolResult:
		return FunctionResult{
			ToolCallID: f.ToolCallID, Name: f.Name, Content: textOf(f.Content), Success: f.Error == "", Error: f.Error,
			ElapsedMs: f.ElapsedMs, ProcessedContent: f.ProcessedContent, Extra: f.Extra,
		}
	case Custom:
		return f.renamed()
	default:
		return fact
	}
}

// textOf is what a JSON value says: a string itself, anything else its JSON.
func textOf(v jsontext.Value) string {
	var text string
	if v.Kind() != jsontext.KindString || json.Unmarshal(v, &text) != nil {
		return string(v)
	}
	return text
}

// Custom is an application's own event (S0, Custom Event Types; S4, ExtendedEventMapping).
type Custom struct {
	Name Type
	Data jsontext.Value // an object
}

// Type implements [Payload].
func (c Custom) Type() Type { return c.Name }

// MarshalJSONTo writes the data alone.
func (c Custom) MarshalJSONTo(enc *jsontext.Encoder) error {
	if len(c.Data) == 0 {
		return enc.WriteValue(jsontext.Value("{}"))
	}
	return enc.WriteValue(c.Data)
}

// renamed keeps an application from speaking with the agent's words.
func (c Custom) renamed() Custom {
	if reserved(c.Name) {
		c.Name = "custom_" + c.Name
	}
	return c
}

// flat moves data into a member of its own where it would not fit between the members that all events have.
func (c Custom) flat() Custom {
	c = c.renamed()
	if fitsFlat(c.Data) {
		return c
	}
	c.Data = append(append([]byte(`{"data":`), c.Data...), '}')
	return c
}

func fitsFlat(data jsontext.Value) bool {
	if len(data) == 0 {
		return true
	}
	var envelope struct {
		ID        jsontext.Value `json:"id"`
		Type      jsontext.Value `json:"type"`
		Timestamp jsontext.Value `json:"timestamp"`
	}
	if data.Kind() != jsontext.KindBeginObject || json.Unmarshal(data, &envelope) != nil {
		return false
	}
	return envelope.ID == nil && envelope.Type == nil && envelope.Timestamp == nil
}
