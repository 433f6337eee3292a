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

// body is an event.AgentRequest that tells absent from empty.
type body struct {
	Messages []event.InputMessage `json:"messages"`
	ThreadID *string              `json:"threadId"`
	Context  event.Context        `json:"context"`
	Tools    []event.RequestTool  `json:"tools"`
	Options  event.RequestOptions `json:"options"`
}

// Decode reads an event.AgentRequest. Member names are case-sensitive and may not repeat; a member that we do not know
// is refused, except in the context and in message parts, where it is passed on to the agent.
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

// lists reads the lists of a request and stops at the first entry too many: half a megabyte of {} must not become a
// hundred times as much in memory before somebody counts it.
var lists = json.JoinUnmarshalers(
	atMost[event.InputMessage](maxMessages, "only what is new: the thread keeps what was said"),
	atMost[event.InputPart](maxParts, "or fewer, larger ones"),
	atMost[event.ActionResult](maxActions, "one for each action"),
	atMost[event.RequestTool](maxTools, "or the ones that this request needs"),
)

func atMost[T any](limit int, advice string) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, list *[]T) error {
		if dec.PeekKind() != jsontext.KindBeginArray {
			return errors.ErrUnsupported // the decoder says what is wrong, or takes a null
		}
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
		*list = []T{} // which is not the same as none at all
		for dec.PeekKind() != jsontext.KindEndArray {
			if len(*list) == limit {
				return invalid("%s has more than %d entries; send at most %d, %s", path(dec.StackPointer().Parent()), limit, limit, advice)
			}
			var entry T
			if err := json.UnmarshalDecode(dec, &entry); err != nil {
				return err
			}
			*list = append(*list, entry)
		}
		_, err := dec.ReadToken()
		return err
	})
}

const example = `{"messages":[{"role":"user","content":"hi"}]}`

func invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}

// explain says where the JSON is wrong and how, without naming types of ours.
func explain(err error) error {
	if told, ok := errors.AsType[*apierr.Error](err); ok {
		return told
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return explainSemantic(semantic)
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		what := strings.TrimPrefix(errors.Unwrap(syntactic).Error(), "jsontext: ")
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return invalid("%s appears twice; send it once", path(syntactic.JSONPointer))
		}
		return invalid("the body is not valid JSON near byte %d, in %s: %s", syntactic.ByteOffset, path(syntactic.JSONPointer), what)
	}
	return invalid("the body is not valid JSON: %v", err)
}

func explainSemantic(err *json.SemanticError) error {
	where := path(err.JSONPointer)
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

// path turns the pointer "/messages/0/role" into "messages[0].role". Names are cut, since a client chose them.
func path(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if strings.Trim(token, "0123456789") == "" && token != "" {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(cut(token))
	}
	if b.Len() == 0 {
		return "the body"
	}
	return cut(b.String())
}

func cut(s string) string {
	if len(s) <= 120 {
		return s
	}
	return strings.ToValidUTF8(s[:120], "") + "…"
}
