// Package wire has what the codecs of OpenAI's APIs share: errors, content of messages, tools and the ids of calls.
package wire

import (
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a request.
const (
	MaxDepth    = 64
	MaxMessages = 2000 // clients send the whole conversation with each request
	MaxParts    = 100
	MaxCalls    = 128
	MaxTools    = 128
)

// Options make the JSON of an event the same each time, and safe in one line.
var Options = jsonv2.JoinOptions(jsontext.EscapeForJS(true), jsonv2.Deterministic(true))

// Encode encodes a value of this package or of the packages below it, whose strings come from valid JSON.
func Encode(value any) json.RawMessage {
	text, err := jsonv2.Marshal(value, Options)
	if err != nil {
		return json.RawMessage(`null`)
	}
	return text
}

// Invalid returns an apierr.InvalidMessageFormat.
func Invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}

// Decode decodes the body of a request into v. Unknown members are ignored: OpenAI adds some each month.
func Decode(body []byte, v any, lists *jsonv2.Unmarshalers, example string) error {
	if jsontext.Value(body).Kind() != jsontext.KindBeginObject {
		return Invalid("the body must be a JSON object such as %s", example)
	}
	if codec.NestedDeeper(body, MaxDepth) {
		return Invalid("the body is nested more than %d levels deep", MaxDepth)
	}
	if err := jsonv2.Unmarshal(body, v, jsonv2.WithUnmarshalers(lists)); err != nil {
		return codec.Explain(err)
	}
	return nil
}

// IsNull reports whether a member is absent or null.
func IsNull(v json.RawMessage) bool {
	kind := jsontext.Value(v).Kind()
	return kind == jsontext.KindInvalid || kind == jsontext.KindNull
}

// Model divides the model of a request into the agent and the model that it asks for: "AGENT" or "AGENT/MODEL".
func Model(name string) (agentID, model string) {
	agentID, model, _ = strings.Cut(name, "/")
	return agentID, model
}

// threadMember is the member of a request's metadata that names its thread.
const threadMember = "thread_id"

// ThreadID returns the thread that the metadata of a request names; "" = none.
func ThreadID(metadata map[string]string) (string, error) {
	threadID, named := metadata[threadMember]
	if named && !id.Valid(threadID) {
		return "", Invalid("metadata.%s %.80q must match ^[A-Za-z0-9_-]{1,64}$", threadMember, threadID)
	}
	return threadID, nil
}

// Context returns the context of a request for the templates of an agent: {context.metadata.…} and {context.user}.
func Context(metadata map[string]string, user string) event.Members {
	var c struct {
		Metadata map[string]string `json:"metadata,omitempty"`
		User     string            `json:"user,omitempty"`
	}
	c.Metadata, c.User = metadata, user
	if len(metadata) == 0 && user == "" {
		return event.Members{}
	}
	return event.NewMembers(Encode(c))
}

// StopList decodes the member stop: a text, or an array of texts.
func StopList(v json.RawMessage) ([]string, error) {
	if IsNull(v) {
		return nil, nil
	}
	var one string
	if jsonv2.Unmarshal(v, &one) == nil {
		return []string{one}, nil
	}
	var many []string
	if err := jsonv2.Unmarshal(v, &many); err != nil {
		return nil, Invalid("stop must be a string or an array of strings")
	}
	return many, nil
}

// Function describes a tool of the client.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// RequestTool converts the description. It returns false for the functions by which a client answers actions: they exist in
// each request, and a client declares them to run them.
func (f Function) RequestTool() (event.RequestTool, bool) {
	t := event.RequestTool{Name: f.Name, Description: f.Description}
	if !IsNull(f.Parameters) {
		t.Schema = f.Parameters
	}
	return t, f.Name != ApprovalFunction && f.Name != InputFunction
}

// Arguments returns the arguments of a call as an object; nil = none, or text that is not an object.
func Arguments(text string) json.RawMessage {
	var object map[string]json.RawMessage
	if jsonv2.Unmarshal([]byte(text), &object) != nil || len(object) == 0 {
		return nil
	}
	return json.RawMessage(text)
}
