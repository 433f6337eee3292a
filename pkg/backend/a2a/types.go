package a2a

import (
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// The states of a task that have a meaning here. A task in another state works.
const (
	stateCompleted     = "TASK_STATE_COMPLETED"
	stateFailed        = "TASK_STATE_FAILED"
	stateCanceled      = "TASK_STATE_CANCELED"
	stateRejected      = "TASK_STATE_REJECTED"
	stateInputRequired = "TASK_STATE_INPUT_REQUIRED"
	stateAuthRequired  = "TASK_STATE_AUTH_REQUIRED"
)

// reply is a response of JSON-RPC, or what the HTTP+JSON binding sends in its place: an update, or a task.
type reply struct {
	Result json.RawMessage `json:"result"`
	Error  *failure        `json:"error"`
	update
}

type failure struct {
	Message string `json:"message"`
}

// update is one event of a stream. It has one member.
type update struct {
	Task     *task           `json:"task"`
	Message  *message        `json:"message"`
	Status   *statusUpdate   `json:"statusUpdate"`
	Artifact *artifactUpdate `json:"artifactUpdate"`
}

type task struct {
	ID        string          `json:"id"`
	ContextID string          `json:"contextId"`
	Status    status          `json:"status"`
	Artifacts []artifact      `json:"artifacts"`
	Metadata  json.RawMessage `json:"metadata"`
}

type status struct {
	State   string   `json:"state"`
	Message *message `json:"message"`
}

type statusUpdate struct {
	TaskID    string          `json:"taskId"`
	ContextID string          `json:"contextId"`
	Status    status          `json:"status"`
	Metadata  json.RawMessage `json:"metadata"`
}

type artifactUpdate struct {
	TaskID    string          `json:"taskId"`
	ContextID string          `json:"contextId"`
	Artifact  artifact        `json:"artifact"`
	Append    bool            `json:"append"`
	Metadata  json.RawMessage `json:"metadata"`
}

type artifact struct {
	ID       string          `json:"artifactId"`
	Name     string          `json:"name,omitempty"`
	Parts    []part          `json:"parts"`
	Metadata json.RawMessage `json:"metadata"`
}

type message struct {
	ID        string          `json:"messageId"`
	ContextID string          `json:"contextId,omitempty"`
	TaskID    string          `json:"taskId,omitempty"`
	Role      string          `json:"role"`
	Parts     []part          `json:"parts"`
	Metadata  json.RawMessage `json:"metadata,omitzero"`
}

// part is a part of a message or an artifact. It has one of Text, Raw, URL and Data.
type part struct {
	Text      *string         `json:"text,omitzero"`
	Raw       []byte          `json:"raw,omitempty"` // base64 in JSON
	URL       string          `json:"url,omitempty"`
	Data      json.RawMessage `json:"data,omitzero"`
	Filename  string          `json:"filename,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
}

// text joins the texts of a message; "" for nil.
func (m *message) text() string {
	if m == nil {
		return ""
	}
	var texts []string
	for _, p := range m.Parts {
		if p.Text != nil && *p.Text != "" {
			texts = append(texts, *p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// metadata is what is read of the metadata of tasks and updates: the usage, which the protocol does not have, and the extension of
// agentbus.
type metadata struct {
	Usage        event.Usage        `json:"usage"`
	Model        string             `json:"model"`
	FinishReason event.FinishReason `json:"finishReason"`
	Retryable    bool               `json:"retryable"`
	Discarded    bool               `json:"discarded"`
	Kind         string             `json:"kind"`
	Type         string             `json:"type"`
}

// about reads metadata: that of agentbus, or else the same names without it.
func about(text json.RawMessage) (m metadata) {
	var own struct {
		Agentbus json.RawMessage `json:"agentbus"`
	}
	if len(text) == 0 || jsonv2.Unmarshal(text, &own) != nil {
		return metadata{}
	}
	if len(own.Agentbus) > 0 {
		text = own.Agentbus
	}
	var members map[string]json.RawMessage
	if jsonv2.Unmarshal(text, &members) != nil {
		return metadata{}
	}
	for name, into := range map[string]any{
		"usage": &m.Usage, "model": &m.Model, "finishReason": &m.FinishReason, "retryable": &m.Retryable, "discarded": &m.Discarded,
		"kind": &m.Kind, "type": &m.Type,
	} {
		if value, ok := members[name]; ok {
			_ = jsonv2.Unmarshal(value, into) // a member of another form says nothing
		}
	}
	return m
}
