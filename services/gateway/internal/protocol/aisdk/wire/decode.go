package wire

import (
	"encoding/json"
	"errors"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of an input.
const (
	maxDepth    = 64
	maxMessages = 2000 // clients send the whole conversation with each request
	maxParts    = 2000 // a message of the assistant has the parts of all its steps
	maxTools    = 128
	maxID       = 128 // bytes
)

// The triggers of a request.
const (
	triggerSubmit     = "submit-message"
	triggerRegenerate = "regenerate-message"
)

// The states of a call.
const (
	stateStreaming = "input-streaming"
	stateResponded = "approval-responded"
	stateOutput    = "output-available"
	stateError     = "output-error"
	stateDenied    = "output-denied"
)

// Input is the body of a request. Its members are those of the published transport, and those that frontends add to them.
type Input struct {
	ID        string         `json:"id"`
	Messages  []Message      `json:"messages"`
	Message   *Message       `json:"message"` // of frontends that send the last message alone
	Trigger   string         `json:"trigger"`
	MessageID string         `json:"messageId"`
	Tools     tools          `json:"tools"`
	System    string         `json:"system"`
	Model     string         `json:"model"`
	Rest      jsontext.Value `json:",embed"`
}

// tools are the tools of a client, by name.
type tools map[string]tool

// tool is a tool that the client runs.
type tool struct {
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// Message is a message that a client sends. Parts that neither models nor this server read are ignored.
type Message struct {
	ID    string   `json:"id"`
	Role  string   `json:"role"`
	Parts []InPart `json:"parts"`
}

// InPart is a part of a message: a text, a file or a call.
type InPart struct {
	Type        string          `json:"type"`
	Text        string          `json:"text"`
	MediaType   string          `json:"mediaType"`
	Filename    string          `json:"filename"`
	URL         string          `json:"url"`
	ToolCallID  string          `json:"toolCallId"`
	ToolName    string          `json:"toolName"`
	State       string          `json:"state"`
	Input       json.RawMessage `json:"input"`
	Output      json.RawMessage `json:"output"`
	ErrorText   string          `json:"errorText"`
	Preliminary bool            `json:"preliminary"`
	Server      bool            `json:"providerExecuted"` // the server runs it
	Approval    struct {
		ID       string `json:"id"`
		Approved bool   `json:"approved"`
		Reason   string `json:"reason"`
	} `json:"approval"`
}

const example = `{"id":"chat-1","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"hi"}]}]}`

// DecodeInput decodes a body. Its error is a *apierr.Error with InvalidMessageFormat that names the wrong member.
func DecodeInput(text []byte) (Input, error) {
	var in Input
	if jsontext.Value(text).Kind() != jsontext.KindBeginObject {
		return in, invalid("the body must be that of a chat transport, such as %s", example)
	}
	if codec.NestedDeeper(text, maxDepth) {
		return in, invalid("the body is nested more than %d levels deep", maxDepth)
	}
	if err := jsonv2.Unmarshal(text, &in, jsonv2.WithUnmarshalers(lists)); err != nil {
		return in, codec.Explain(err)
	}
	if in.Message != nil && len(in.Messages) == 0 {
		in.Messages = []Message{*in.Message}
	}
	if in.Trigger == "" {
		in.Trigger = triggerSubmit
	}
	return in, in.check()
}

// check checks what the types do not.
func (in Input) check() error {
	switch {
	case !id.Valid(in.ID):
		return invalid("id %.80q must match ^[A-Za-z0-9_-]{1,64}$: it is the id of the chat", in.ID)
	case in.Trigger != triggerSubmit && in.Trigger != triggerRegenerate:
		return invalid("trigger is %.40q; use %q or %q", in.Trigger, triggerSubmit, triggerRegenerate)
	case len(in.MessageID) > maxID:
		return invalid("messageId is longer than %d bytes", maxID)
	case len(in.Messages) == 0:
		return invalid("messages is empty; send at least one message of the user")
	case len(in.Tools) > maxTools:
		return invalid("tools has more than %d entries", maxTools)
	}
	for i, m := range in.Messages {
		switch m.Role {
		case event.RoleUser, event.RoleAssistant, event.RoleSystem:
		default:
			return invalid("messages[%d].role is %.40q; use \"user\", \"assistant\" or \"system\"", i, m.Role)
		}
	}
	return nil
}

// lists stops at the first entry too many, before a small body becomes a large one in memory.
var lists = jsonv2.JoinUnmarshalers(
	codec.AtMost[Message](maxMessages, "or the new message alone as \"message\""),
	codec.AtMost[InPart](maxParts, ""),
	jsonv2.UnmarshalFromFunc(decodeTools),
)

// decodeTools decodes tools up to one over the limit.
func decodeTools(dec *jsontext.Decoder, t *tools) error {
	if dec.PeekKind() != jsontext.KindBeginObject {
		return errors.ErrUnsupported // the decoder reports the error, or accepts a null
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	*t = tools{}
	for dec.PeekKind() != jsontext.KindEndObject {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key, one := name.String(), tool{}
		if len(*t) > maxTools {
			return invalid("tools has more than %d entries", maxTools)
		}
		if err := jsonv2.UnmarshalDecode(dec, &one); err != nil {
			return err
		}
		(*t)[key] = one
	}
	_, err := dec.ReadToken()
	return err
}

func unmarshal(text json.RawMessage, value any) error { return jsonv2.Unmarshal(text, value) }

func invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}
