package wire

import (
	"errors"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Envelope has the members of each message of a client on the WebSocket.
type Envelope struct {
	Type string `json:"type"`
	ID   string `json:"id"` // repeated in the reply
}

// Target is a request, or a thread.
type Target struct {
	RequestID string `json:"requestId,omitempty"`
	ThreadID  string `json:"threadId,omitempty"`
}

// Follow asks for the events of a request after a cursor ("" = all), or of a thread. With both ids, After is the id of an event
// of that request, and the events of the thread follow it.
type Follow struct {
	Envelope
	Target

	After   string   `json:"after"`
	Include []string `json:"include"`
}

// Unfollow ends the events of a request or thread.
type Unfollow struct {
	Envelope
	Target
}

// Start starts a request of an agent and follows it.
type Start struct {
	Envelope

	Agent          string         `json:"agent"`
	Request        jsontext.Value `json:"request"` // see [DecodeMember]
	IdempotencyKey string         `json:"idempotencyKey"`
	CreateThread   bool           `json:"createThread"`
	Include        []string       `json:"include"`
}

// Steer sends messages to a running request.
type Steer struct {
	Envelope

	RequestID      string         `json:"requestId"`
	Request        jsontext.Value `json:"request"` // see [DecodeMember]
	IdempotencyKey string         `json:"idempotencyKey"`
}

// Abort aborts a request.
type Abort struct {
	Envelope

	RequestID string `json:"requestId"`
	Reason    string `json:"reason"`
}

// Limits of a message.
const (
	maxID      = 128 // bytes
	maxInclude = 64  // names
)

// DecodeMessage decodes a message of a client: a *Follow, *Unfollow, *Start, *Steer or *Abort. The id is that of the message,
// also with an error, if it could be read.
func DecodeMessage(text []byte) (messageID string, message any, err error) {
	var head Envelope
	if jsontext.Value(text).Kind() != jsontext.KindBeginObject {
		return "", nil, invalid(`a message must be a JSON object such as {"type":"follow","requestId":"req_1"}`)
	}
	if codec.NestedDeeper(text, maxDepth+1) {
		return "", nil, invalid("the message is nested more than %d levels deep", maxDepth+1)
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return "", nil, explain(err)
	}
	if len(head.ID) > maxID {
		return "", nil, invalid("id is longer than %d bytes", maxID)
	}
	switch head.Type {
	case "follow":
		message = &Follow{}
	case "unfollow":
		message = &Unfollow{}
	case "start":
		message = &Start{}
	case "steer":
		message = &Steer{}
	case "abort":
		message = &Abort{}
	default:
		return head.ID, nil, invalid("type=%.40q: use follow, unfollow, start, steer or abort", head.Type)
	}
	err = json.Unmarshal(text, message, json.RejectUnknownMembers(true))
	if unknown, ok := errors.AsType[*json.SemanticError](err); ok && errors.Is(err, json.ErrUnknownName) {
		return head.ID, nil, invalid("%s is not a member of a message of type %s; names are case-sensitive", codec.Path(unknown.JSONPointer), head.Type)
	}
	if err != nil {
		return head.ID, nil, explain(err)
	}
	return head.ID, message, checkMessage(message)
}

// checkMessage checks what the types do not express.
func checkMessage(message any) error {
	switch m := message.(type) {
	case *Follow:
		if m.ThreadID == "" && m.RequestID == "" {
			return invalid("requestId is missing; send the id of a request, or threadId")
		}
		if m.ThreadID != "" && m.RequestID != "" && m.After == "" {
			return invalid("after is missing; requestId in addition to threadId names the request of the event in after")
		}
		return checkInclude(m.Include)
	case *Start:
		return checkInclude(m.Include)
	case *Unfollow:
		if !id.Valid(m.ThreadID+m.RequestID) || m.ThreadID != "" && m.RequestID != "" {
			return invalid("send either the requestId or the threadId that is followed")
		}
	case *Abort:
		if len(m.Reason) > maxReason {
			return invalid("reason is longer than %d bytes", maxReason)
		}
	}
	return nil
}

// checkInclude bounds a list with which each event is compared.
func checkInclude(words []string) error {
	if len(words) > maxInclude {
		return invalid("include has more than %d entries; each event has one name", maxInclude)
	}
	return nil
}

// DecodeMember decodes the member "request" of a message, which is the body of the HTTP request with the same purpose.
func DecodeMember(request jsontext.Value) (event.AgentRequest, error) {
	r, err := Codec{}.Decode(request)
	if f, ok := errors.AsType[*apierr.Error](err); ok {
		return r, apierr.Wrap(err, f.Code, "request: %s", f.Message)
	}
	return r, err
}
