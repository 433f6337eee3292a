package responses

import (
	"encoding/json"
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Input is the body of POST /responses.
type Input struct {
	Model           string            `json:"model"`
	Input           Items             `json:"input"`
	Instructions    string            `json:"instructions"`
	Previous        *string           `json:"previous_response_id"`
	Conversation    *conversation     `json:"conversation"`
	Stream          bool              `json:"stream"`
	Background      bool              `json:"background"`
	Temperature     *float64          `json:"temperature"`
	TopP            *float64          `json:"top_p"`
	MaxOutputTokens int               `json:"max_output_tokens"`
	Text            textConfig        `json:"text"`
	Tools           []Tool            `json:"tools"`
	ToolChoice      json.RawMessage   `json:"tool_choice"`
	Include         []string          `json:"include"`
	Metadata        map[string]string `json:"metadata"`
	User            string            `json:"user"`

	// These members would change the response in a way that an agent cannot.
	MaxToolCalls *int            `json:"max_tool_calls"`
	TopLogprobs  int             `json:"top_logprobs"`
	Prompt       json.RawMessage `json:"prompt"`
}

// Items is the input: a text, or an array of items.
type Items []InputItem

// InputItem is an item of the input.
type InputItem struct {
	Type      string          `json:"type"` // "" = message
	ID        string          `json:"id"`
	Status    string          `json:"status"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a string
	Output    json.RawMessage `json:"output"`    // a string, or an array of parts
	Error     json.RawMessage `json:"error"`
	RequestID string          `json:"approval_request_id"`
	Approve   *bool           `json:"approve"`
	Reason    string          `json:"reason"`
}

// conversation is the id of a thread: a string, or an object with the member id.
type conversation string

const example = `{"model":"demo","input":"hi"}`

// lists stops at the first entry too many, before a small body becomes a large one in memory.
var lists = jsonv2.JoinUnmarshalers(
	codec.AtMost[InputItem](wire.MaxMessages, ""), codec.AtMost[Tool](wire.MaxTools, ""), codec.AtMost[string](wire.MaxParts, ""),
	jsonv2.UnmarshalFromFunc(decodeItems), jsonv2.UnmarshalFromFunc(decodeConversation),
)

func decodeItems(dec *jsontext.Decoder, items *Items) error {
	if dec.PeekKind() != jsontext.KindString {
		return jsonv2.UnmarshalDecode(dec, (*[]InputItem)(items))
	}
	text, err := dec.ReadValue()
	*items = Items{{Role: event.RoleUser, Content: json.RawMessage(text.Clone())}}
	return err
}

func decodeConversation(dec *jsontext.Decoder, c *conversation) error {
	if dec.PeekKind() != jsontext.KindBeginObject {
		return jsonv2.UnmarshalDecode(dec, (*string)(c))
	}
	var object conversationRef
	err := jsonv2.UnmarshalDecode(dec, &object)
	*c = conversation(object.ID)
	return err
}

// DecodeInput decodes a body. Its error is a *apierr.Error with InvalidMessageFormat that names the wrong member.
func DecodeInput(body []byte) (Input, error) {
	var in Input
	if err := wire.Decode(body, &in, lists, example); err != nil {
		return in, err
	}
	return in, in.check()
}

func (in Input) check() error {
	switch {
	case in.Model == "":
		return wire.Invalid("model is missing; it is the name of an agent: GET /openai/v1/models lists them")
	case len(in.Input) == 0:
		return wire.Invalid("input is empty; send a text, or at least one item")
	case in.Previous != nil && in.Conversation != nil:
		return wire.Invalid("previous_response_id and conversation both name a thread; send one of them")
	case in.Previous != nil && !id.Valid(RequestID(*in.Previous)):
		return wire.Invalid("previous_response_id %.80q is not the id of a response of this server", *in.Previous)
	case in.Conversation != nil && !id.Valid(string(*in.Conversation)):
		return wire.Invalid("conversation %.80q must match ^[A-Za-z0-9_-]{1,64}$", string(*in.Conversation))
	case in.MaxToolCalls != nil:
		return wire.Invalid("max_tool_calls is not supported; the agent's configuration has its limits: leave it out")
	case in.TopLogprobs > 0 || slices.Contains(in.Include, "message.output_text.logprobs"):
		return wire.Invalid("log probabilities are not supported; leave out top_logprobs and message.output_text.logprobs")
	case !wire.IsNull(in.Prompt):
		return wire.Invalid("prompt is not supported; use instructions and input")
	}
	return nil
}

// tools returns the client's tools; nil = not declared.
func (in Input) tools() ([]event.RequestTool, error) {
	var tools []event.RequestTool
	for i, t := range in.Tools {
		switch {
		case t.Type == "mcp" && t.ServerLabel == ServerLabel: // some clients require that the server of an approval is declared
			continue
		case t.Type != "function":
			return nil, wire.Invalid("tools[%d].type is %.40q; use \"function\"", i, t.Type)
		}
		if one, ok := t.RequestTool(); ok {
			tools = append(tools, one)
		}
	}
	return tools, nil
}

func (in Input) options() (event.RequestOptions, error) {
	o := event.RequestOptions{Temperature: in.Temperature, TopP: in.TopP, MaxTokens: in.MaxOutputTokens}
	var err error
	if !wire.IsNull(in.ToolChoice) {
		if o.ToolChoice, err = choice(in.ToolChoice); err != nil {
			return o, err
		}
	}
	if in.Text.Format == nil {
		return o, nil
	}
	o.ResponseFormat, err = in.Text.Format.option()
	return o, err
}

// choice decodes tool_choice: a mode, or the name of a function.
func choice(v json.RawMessage) (*event.ToolChoice, error) {
	var mode string
	if jsonv2.Unmarshal(v, &mode) == nil {
		return &event.ToolChoice{Mode: event.ToolMode(mode)}, nil
	}
	var named toolChoice
	if jsonv2.Unmarshal(v, &named) != nil || named.Type != "function" || named.Name == "" {
		return nil, wire.Invalid(`tool_choice must be "none", "auto", "required" or {"type":"function","name":"…"}`)
	}
	return &event.ToolChoice{Mode: event.ChooseTool, Name: named.Name}, nil
}

func (f format) option() (*event.ResponseFormat, error) {
	switch f.Type {
	case "text":
		return &event.ResponseFormat{Type: event.FormatText}, nil
	case "json_object":
		return &event.ResponseFormat{Type: event.FormatJSON}, nil
	case "json_schema":
		if wire.IsNull(f.Schema) {
			return nil, wire.Invalid("text.format.schema is missing")
		}
		return &event.ResponseFormat{Type: event.FormatSchema, Name: f.Name, Schema: f.Schema, Strict: f.Strict}, nil
	default:
		return nil, wire.Invalid("text.format.type is %.40q; use \"text\", \"json_object\" or \"json_schema\"", f.Type)
	}
}
