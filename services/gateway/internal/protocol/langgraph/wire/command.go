package wire

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Command is the body of POST …/commands.
type Command struct {
	ID     uint64          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Reply is the response to a command.
type Reply struct {
	Type    string `json:"type"` // success, error
	ID      uint64 `json:"id"`
	Result  any    `json:"result,omitzero"`
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"`
}

// The codes of errors of commands.
const (
	CodeInvalid      = "invalid_argument"
	CodeUnknown      = "unknown_command"
	CodeNoRun        = "no_such_run"
	CodeNoInterrupt  = "no_such_interrupt"
	CodeNotSupported = "not_supported"
)

// DecodeCommand reads the body of POST …/commands.
func DecodeCommand(body []byte) (c Command, err error) {
	if err := Decode(body, &c); err != nil {
		return c, err
	}
	if c.Method == "" {
		return c, invalid(`a command has a method, such as {"id":1,"method":"run.start","params":{"assistant_id":"demo","input":{"messages":[]}}}`)
	}
	if isNull(c.Params) {
		c.Params = json.RawMessage("{}")
	}
	if jsontext.Value(c.Params).Kind() != jsontext.KindBeginObject {
		return c, invalid("params must be an object")
	}
	return c, nil
}

// Success is the response to a command that has succeeded.
func (c Command) Success(result any) Reply { return Reply{Type: "success", ID: c.ID, Result: result} }

// Failure is the response to a command that has failed.
func (c Command) Failure(code, message string) Reply {
	return Reply{Type: "error", ID: c.ID, Error: code, Message: message}
}

// Explain returns the response for an error; false if the error is not about the command but about its HTTP request.
func (c Command) Explain(err error) (Reply, bool) {
	switch apierr.CodeOf(err) {
	case apierr.InvalidMessageFormat, apierr.AgentNotFound:
		return c.Failure(CodeInvalid, err.Error()), true
	default:
		return Reply{}, false
	}
}

// DecodeStart reads the params of run.start. The run is started on a new thread as well.
func DecodeStart(params []byte) (in Input, err error) {
	if in, err = DecodeInput(params); err != nil {
		return in, err
	}
	var fork struct {
		CheckpointID string `json:"checkpoint_id"`
	}
	if len(in.Config.Configurable) > 0 {
		if err := jsonv2.Unmarshal(in.Config.Configurable, &fork); err != nil {
			return in, invalid("config.configurable must be an object, and its checkpoint_id a string")
		}
	}
	if in.CheckpointID == "" {
		in.CheckpointID = fork.CheckpointID
	}
	in.IfNotExists = "create"
	return in, nil
}

// MayAnswer reports whether the input is what an interrupted thread is resumed with: a value other than new messages.
func (in Input) MayAnswer() bool {
	var members map[string]json.RawMessage
	return !isNull(in.Input) && (jsonv2.Unmarshal(in.Input, &members) != nil || isNull(members["messages"]))
}

// Answer makes the input the answer to the interrupts of its thread.
func (in Input) Answer() Input {
	in.Command, in.Input = &command{Resume: in.Input}, nil
	return in
}

// respond is the params of input.respond: one answer, or several.
type respond struct {
	InterruptID string          `json:"interrupt_id"`
	Response    json.RawMessage `json:"response"`
	Responses   []struct {
		InterruptID string          `json:"interrupt_id"`
		Response    json.RawMessage `json:"response"`
	} `json:"responses"`
	Config   runConfig       `json:"config"`
	Metadata json.RawMessage `json:"metadata"`
	Update   json.RawMessage `json:"update"`
	Goto     json.RawMessage `json:"goto"`
}

// maxResponses bounds the answers of a command.
const maxResponses = 1000

// DecodeRespond reads the params of input.respond: a run of an assistant with the answers, and the interrupts that it answers.
func DecodeRespond(params []byte, assistantID string) (in Input, ids []string, err error) {
	var r respond
	if err := Decode(params, &r); err != nil {
		return in, nil, err
	}
	if len(r.Responses) > maxResponses {
		return in, nil, invalid("responses has %d entries; at most %d are allowed", len(r.Responses), maxResponses)
	}
	values := map[string]json.RawMessage{}
	for _, one := range r.Responses {
		values[one.InterruptID] = orNull(one.Response)
	}
	if len(r.Responses) == 0 {
		values[r.InterruptID] = orNull(r.Response)
	}
	if _, nameless := values[""]; nameless {
		return in, nil, invalid("input.respond needs the interrupt_id of each answer")
	}
	in = Input{
		AssistantID: assistantID, Config: r.Config, Metadata: r.Metadata, Command: &command{Resume: encode(values), Update: r.Update, Goto: r.Goto},
	}
	return in, slices.Sorted(maps.Keys(values)), in.check()
}

// orNull returns a response; null without one.
func orNull(response json.RawMessage) json.RawMessage {
	if len(response) == 0 {
		return json.RawMessage("null")
	}
	return response
}

// Inject is the params of input.inject.
type Inject struct {
	Message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"message"`
}

// DecodeInject reads the params of input.inject.
func DecodeInject(params []byte) (i Inject, err error) {
	if err := Decode(params, &i); err != nil {
		return i, err
	}
	if i.Message.Role != "user" || i.Message.Content == "" {
		return i, invalid(`message must have the role "user" and a text as content`)
	}
	return i, nil
}
