package wire

import (
	"encoding/json"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the version of the protocol.
const Version = "1.0"

// MediaType is the type of what the HTTP+JSON binding sends.
const MediaType = "application/a2a+json"

// State is the state of a task.
type State string

// The states that tasks of this server have.
const (
	StateSubmitted     State = "TASK_STATE_SUBMITTED"
	StateWorking       State = "TASK_STATE_WORKING"
	StateInputRequired State = "TASK_STATE_INPUT_REQUIRED"
	StateCompleted     State = "TASK_STATE_COMPLETED"
	StateFailed        State = "TASK_STATE_FAILED"
	StateCanceled      State = "TASK_STATE_CANCELED"
	StateRejected      State = "TASK_STATE_REJECTED"
)

// IsTerminal reports whether a task in this state never changes.
func (s State) IsTerminal() bool {
	switch s {
	case StateCompleted, StateFailed, StateCanceled, StateRejected:
		return true
	default:
		return false
	}
}

// The roles of messages.
const (
	RoleUser  = "ROLE_USER"
	RoleAgent = "ROLE_AGENT"
)

// Task is a request, with the requests that have continued it.
type Task struct {
	ID        string          `json:"id"`
	ContextID string          `json:"contextId"`
	Status    Status          `json:"status"`
	Artifacts []Artifact      `json:"artifacts,omitempty"`
	History   []Message       `json:"history,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitzero"`
}

// Recent returns the task with the newest messages of its history, at most limit of them; nil = all.
func (t Task) Recent(limit *int) Task {
	if limit != nil && len(t.History) > *limit {
		t.History = t.History[len(t.History)-*limit:]
	}
	return t
}

// Status is the status of a task.
type Status struct {
	State     State    `json:"state"`
	Message   *Message `json:"message,omitempty"`
	Timestamp string   `json:"timestamp,omitempty"`
}

// Message is a message of the user or of the agent.
type Message struct {
	MessageID string          `json:"messageId"`
	ContextID string          `json:"contextId,omitempty"`
	TaskID    string          `json:"taskId,omitempty"`
	Role      string          `json:"role"`
	Parts     []Part          `json:"parts"`
	Metadata  json.RawMessage `json:"metadata,omitzero"`
}

// Part is a part of a message or an artifact. It has one of Text, Raw, URL and Data.
type Part struct {
	Text      *string         `json:"text,omitzero"`
	Raw       []byte          `json:"raw,omitempty"` // base64 in JSON
	URL       string          `json:"url,omitempty"`
	Data      json.RawMessage `json:"data,omitzero"`
	Filename  string          `json:"filename,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitzero"`
}

// Artifact is an output of a task.
type Artifact struct {
	ID       string          `json:"artifactId"`
	Name     string          `json:"name,omitempty"`
	Parts    []Part          `json:"parts"`
	Metadata json.RawMessage `json:"metadata,omitzero"`
}

// Update is one event of a stream. It has one member.
type Update struct {
	Task     *Task           `json:"task,omitempty"`
	Status   *StatusUpdate   `json:"statusUpdate,omitempty"`
	Artifact *ArtifactUpdate `json:"artifactUpdate,omitempty"`
}

// StatusUpdate changes the status of a task, or reports progress.
type StatusUpdate struct {
	TaskID    string          `json:"taskId"`
	ContextID string          `json:"contextId"`
	Status    Status          `json:"status"`
	Metadata  json.RawMessage `json:"metadata,omitzero"`
}

// ArtifactUpdate adds to an artifact, or replaces it.
type ArtifactUpdate struct {
	TaskID    string          `json:"taskId"`
	ContextID string          `json:"contextId"`
	Artifact  Artifact        `json:"artifact"`
	Append    bool            `json:"append,omitzero"`
	LastChunk bool            `json:"lastChunk,omitzero"`
	Metadata  json.RawMessage `json:"metadata,omitzero"`
}

// options make the JSON of an event the same each time, and safe in one line.
var options = jsonv2.JoinOptions(jsontext.EscapeForJS(true), jsonv2.Deterministic(true))

// encode returns a value as JSON. Values are those of decoded events, which can be encoded.
func encode(value any) json.RawMessage {
	text, err := jsonv2.Marshal(value, options)
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}

// own returns metadata of this server, which has one member, "agentbus".
func own(members map[string]any) json.RawMessage {
	return encode(map[string]any{"agentbus": members})
}

// textPart returns a part that is a text.
func textPart(text string) Part { return Part{Text: &text} }

// dataPart returns a part that is JSON.
func dataPart(value any) Part { return Part{Data: encode(value), MediaType: "application/json"} }

// timestamp returns a time as the protocol writes it.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
