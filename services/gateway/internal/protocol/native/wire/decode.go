package wire

import (
	"errors"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a request.
const (
	maxDepth    = 64
	maxMessages = 100
	maxParts    = 100
	maxActions  = 100
	maxTools    = 128
)

// body is an event.AgentRequest that distinguishes absent from empty members.
type body struct {
	Messages []event.InputMessage `json:"messages"`
	ThreadID *string              `json:"threadId"`
	Context  event.Context        `json:"context"`
	Tools    []event.RequestTool  `json:"tools"`
	Options  event.RequestOptions `json:"options"`
}

// Decode decodes an event.AgentRequest. Member names are case-sensitive and must not repeat. Unknown members are
// refused, except in the context and in message parts, which are passed to the agent.
func (Codec) Decode(text []byte) (event.AgentRequest, error) {
	if jsontext.Value(text).Kind() != jsontext.KindBeginObject {
		return event.AgentRequest{}, invalid("the body must be a JSON object such as %s", example)
	}
	if codec.NestedDeeper(text, maxDepth) {
		return event.AgentRequest{}, invalid("the body is nested more than %d levels deep", maxDepth)
	}
	var b body
	if err := json.Unmarshal(text, &b, json.RejectUnknownMembers(true), json.WithUnmarshalers(lists)); err != nil {
		return event.AgentRequest{}, explain(err)
	}
	r := event.AgentRequest{Messages: b.Messages, Context: b.Context, Tools: b.Tools, Options: b.Options}
	if b.ThreadID != nil {
		if !id.Valid(*b.ThreadID) {
			return r, invalid("threadId %.80q must match ^[A-Za-z0-9_-]{1,64}$; leave it out to start a thread", *b.ThreadID)
		}
		r.ThreadID = *b.ThreadID
	}
	return r, validate(r)
}

// maxReason is the length of the reason of an abort, in bytes.
const maxReason = 1000

// DecodeAbort returns the reason in the body of an abort; a body is optional.
func DecodeAbort(text []byte) (reason string, err error) {
	if len(text) == 0 {
		return "", nil
	}
	var b struct {
		Reason string `json:"reason"`
	}
	if jsontext.Value(text).Kind() != jsontext.KindBeginObject {
		return "", invalid(`the body must be a JSON object such as {"reason":"no longer needed"}, or empty`)
	}
	err = json.Unmarshal(text, &b, json.RejectUnknownMembers(true))
	if errors.Is(err, json.ErrUnknownName) {
		return "", invalid("an abort has the member reason and no other; names are case-sensitive")
	}
	if err != nil {
		return "", explain(err)
	}
	if len(b.Reason) > maxReason {
		return "", invalid("reason is longer than %d bytes", maxReason)
	}
	return b.Reason, nil
}

// lists decodes the lists of a request and stops at the first entry beyond the limit: half a megabyte of {} would
// become a hundred times as much in memory before a later check.
var lists = json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, content *event.InputContent) error {
		if dec.PeekKind() != jsontext.KindBeginArray {
			return errors.ErrUnsupported // a string, or an error
		}
		return json.UnmarshalDecode(dec, (*[]event.InputPart)(content))
	}),
	codec.AtMost[event.InputMessage](maxMessages, "send only new messages: the thread has the earlier ones"),
	codec.AtMost[event.InputPart](maxParts, "or fewer, larger ones"),
	codec.AtMost[event.ActionResult](maxActions, "one for each action"),
	codec.AtMost[event.RequestTool](maxTools, "or the ones that this request needs"),
)

const example = `{"messages":[{"role":"user","content":"hi"}]}`

func invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}

// explain describes an error of the JSON decoder for clients, without names of Go types.
func explain(err error) error {
	if apiErr, ok := errors.AsType[*apierr.Error](err); ok {
		return apiErr
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return explainSemantic(semantic)
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		what := strings.TrimPrefix(errors.Unwrap(syntactic).Error(), "jsontext: ")
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return invalid("%s appears twice; send it once", codec.Path(syntactic.JSONPointer))
		}
		return invalid("the body is not valid JSON near byte %d, in %s: %s", syntactic.ByteOffset, codec.Path(syntactic.JSONPointer), what)
	}
	return invalid("the body is not valid JSON: %v", err)
}

func explainSemantic(err *json.SemanticError) error {
	where := codec.Path(err.JSONPointer)
	if errors.Is(err, json.ErrUnknownName) {
		if err.JSONPointer.Parent() == "" {
			return invalid("%s is not a member of a request; what is for the agent goes into context", where)
		}
		return invalid("%s is not known here; names are case-sensitive", where)
	}
	if err.Err != nil {
		if _, ok := errors.AsType[*json.SemanticError](err.Err); !ok {
			return invalid("%s: %v", where, err.Err)
		}
	}
	return invalid("%s must not be a JSON %s", where, kindName(err.JSONKind))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "boolean"
	case jsontext.KindString:
		return "string of this form"
	case jsontext.KindNumber:
		return "number"
	case jsontext.KindBeginArray:
		return "array"
	default:
		return "object"
	}
}
