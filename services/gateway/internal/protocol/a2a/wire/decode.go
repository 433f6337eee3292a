package wire

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of what a client sends.
const (
	maxDepth     = 64
	maxParts     = 100
	maxMessageID = 128 // bytes
)

// Call is a call of JSON-RPC.
type Call struct {
	ID     json.RawMessage // a string, a number or null
	Method string
	Params json.RawMessage // an object
}

// DecodeCall decodes the body of a call. With an error, Call has the id as far as it was read.
func DecodeCall(body []byte) (Call, error) {
	var c struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	if codec.NestedDeeper(body, maxDepth) {
		return Call{}, parseError.New("the body is nested more than %d levels deep", maxDepth)
	}
	if err := jsonv2.Unmarshal(body, &c); err != nil {
		if _, syntactic := errors.AsType[*jsontext.SyntacticError](err); syntactic {
			return Call{}, parseError.New("%v", codec.Explain(err))
		}
		return Call{}, invalidRequest.New("the body must be one call such as %s", callExample)
	}
	call := Call{ID: c.ID, Method: c.Method, Params: c.Params}
	switch jsontext.Value(c.ID).Kind() {
	case jsontext.KindString, jsontext.KindNumber, jsontext.KindNull:
	default:
		return Call{}, invalidRequest.New("id must be a string or a number")
	}
	if c.Version != "2.0" || c.Method == "" {
		return call, invalidRequest.New("the body must be one call such as %s", callExample)
	}
	if kind := jsontext.Value(c.Params).Kind(); kind == jsontext.KindInvalid || kind == jsontext.KindNull {
		call.Params = json.RawMessage("{}")
	} else if kind != jsontext.KindBeginObject {
		return call, invalid("params must be an object")
	}
	return call, nil
}

const (
	callExample = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{…}}`
	sendExample = `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]}}`
)

// Send are the parameters of SendMessage and SendStreamingMessage.
type Send struct {
	Message       InMessage       `json:"message"`
	Configuration Configuration   `json:"configuration"`
	Metadata      json.RawMessage `json:"metadata"`

	body []byte // of the message
}

// InMessage is a message that a client sends.
type InMessage struct {
	MessageID string          `json:"messageId"`
	ContextID string          `json:"contextId"`
	TaskID    string          `json:"taskId"`
	Role      string          `json:"role"`
	Parts     []Part          `json:"parts"`
	Metadata  json.RawMessage `json:"metadata"`
}

// Configuration says how a message is answered.
type Configuration struct {
	HistoryLength     *int        `json:"historyLength"`
	ReturnImmediately bool        `json:"returnImmediately"`
	Push              *PushConfig `json:"taskPushNotificationConfig"` // nil = none
}

// parts stops at the first entry too many, before a small body becomes a large one in memory.
var parts = codec.AtMost[Part](maxParts, "")

// DecodeSend decodes the parameters. Its error is a *apierr.Error with InvalidMessageFormat that names the wrong member.
func DecodeSend(body []byte) (Send, error) {
	var in Send
	if err := decode(body, &in, sendExample); err != nil {
		return in, err
	}
	var raw struct {
		Message json.RawMessage `json:"message"`
	}
	if err := jsonv2.Unmarshal(body, &raw); err != nil {
		return in, codec.Explain(err)
	}
	in.body = raw.Message
	return in, in.check()
}

func (in Send) check() error {
	m := in.Message
	switch {
	case m.MessageID == "":
		return invalid("message.messageId is missing; send a new id with each message, such as a UUID")
	case len(m.MessageID) > maxMessageID:
		return invalid("message.messageId is longer than %d bytes", maxMessageID)
	case m.Role != RoleUser:
		return invalid("message.role is %.40q; use %q", m.Role, RoleUser)
	case len(m.Parts) == 0:
		return invalid("message.parts is empty; send at least one part such as {\"text\":\"hi\"}")
	case m.ContextID != "" && !id.Valid(m.ContextID):
		return invalid("message.contextId %.80q must match ^[A-Za-z0-9_-]{1,64}$", m.ContextID)
	case m.TaskID != "" && !id.Valid(m.TaskID):
		return errTaskNotFound.New("there is no task %.80q", m.TaskID)
	}
	return checkLength("configuration.historyLength", in.Configuration.HistoryLength)
}

func checkLength(where string, length *int) error {
	if length != nil && *length < 0 {
		return invalid("%s is %d; it must be at least 0", where, *length)
	}
	return nil
}

// Body is the message as the client has sent it: a retry has the same one.
func (in Send) Body() []byte { return in.body }

// Request converts the message. waiting are the actions of the task that it continues.
func (in Send) Request(waiting []event.Continuation) (event.AgentRequest, error) {
	r := event.AgentRequest{Messages: []event.InputMessage{}, ThreadID: in.Message.ContextID}
	content := make(event.InputContent, 0, len(in.Message.Parts))
	prose := true
	for i, p := range in.Message.Parts {
		where := "message.parts[" + strconv.Itoa(i) + "]"
		one, err := p.input(where)
		if err != nil {
			return r, err
		}
		prose = prose && p.Text != nil
		if len(p.Data) > 0 {
			result, ok, err := answerOf(where+".data", p.Data, waiting)
			if err != nil {
				return r, err
			}
			if ok {
				r.Context.ActionResults = append(r.Context.ActionResults, result)
				continue
			}
		}
		content = append(content, one)
	}
	if prose {
		if result, ok := answerInText(content.Text(), waiting); ok {
			r.Context.ActionResults, content = []event.ActionResult{result}, nil
		}
	}
	if len(content) > 0 {
		checked, err := codec.CheckContent("message.parts", content)
		if err != nil {
			return r, err
		}
		r.Messages = append(r.Messages, event.InputMessage{ID: in.Message.MessageID, Role: event.RoleUser, Content: checked})
	}
	r.Context.Extra = event.NewMembers(in.extra())
	return r, nil
}

// extra returns the context of the request, which templates read: {context.metadata.…} and {context.messageMetadata.…}.
func (in Send) extra() json.RawMessage {
	members := map[string]json.RawMessage{}
	for name, value := range map[string]json.RawMessage{"metadata": in.Metadata, "messageMetadata": in.Message.Metadata} {
		if len(value) > 0 && jsontext.Value(value).Kind() != jsontext.KindNull && string(value) != "{}" {
			members[name] = value
		}
	}
	if len(members) == 0 {
		return nil
	}
	return encode(members)
}

// TaskQuery are the parameters of the methods about one task.
type TaskQuery struct {
	ID            string `json:"id"`
	HistoryLength *int   `json:"historyLength"`
}

// DecodeTaskQuery decodes the parameters.
func DecodeTaskQuery(body []byte) (TaskQuery, error) {
	var q TaskQuery
	if err := decode(body, &q, `{"id":"…"}`); err != nil {
		return q, err
	}
	if q.ID == "" {
		return q, invalid("id is missing; it is the id of a task")
	}
	return q, checkLength("historyLength", q.HistoryLength)
}

// ParseLength parses a parameter of a URL; nil without one.
func ParseLength(name, text string) (*int, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // as its comment says
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, invalid("%s is %.40q; it must be a number", name, text)
	}
	return &n, checkLength(name, &n)
}

// CheckVersion returns an error if the server does not support a version of the protocol. A client that sends none uses 0.3.
func CheckVersion(version string) error {
	if version == Version || strings.HasPrefix(version, Version+".") {
		return nil
	}
	if version == "" {
		return VersionNotSupported.New("without the header A2A-Version the version is 0.3, which is not supported; send %s", Version)
	}
	return VersionNotSupported.New("version %.40q of the protocol is not supported; send %s", version, Version)
}

func decode(body []byte, v any, example string) error {
	if jsontext.Value(body).Kind() != jsontext.KindBeginObject {
		return invalid("the parameters must be a JSON object such as %s", example)
	}
	if codec.NestedDeeper(body, maxDepth) {
		return invalid("the parameters are nested more than %d levels deep", maxDepth)
	}
	if err := jsonv2.Unmarshal(body, v, jsonv2.WithUnmarshalers(parts)); err != nil {
		return codec.Explain(err)
	}
	return nil
}
