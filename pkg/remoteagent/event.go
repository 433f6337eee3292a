package remoteagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	jsonv2 "github.com/go-json-experiment/json"
)

// Event is one event of a task's stream (TARS hub protocol, GET /tasks/:id/stream).
type Event struct {
	ID   uint64 // its place in the stream, from 1
	Body Body
}

// Body is what an event says: TextDelta, ToolStart, ToolOutput, ToolEnd, Progress, ActionRequired, Result, Failure or
// Unknown.
type Body interface {
	// Name is the "event:" line.
	Name() string
	sealed()
}

// TextDelta adds to what the agent says.
type TextDelta struct {
	Text string `json:"text"`
}

// ToolStart says that the agent uses a tool.
type ToolStart struct {
	Tool       string          `json:"tool"`
	File       string          `json:"file,omitempty"` // that it is about, if it is about one
	ToolCallID string          `json:"toolCallId,omitempty"`
	Activity   string          `json:"activity,omitempty"` // for people: "Editing middleware.ts"
	Input      json.RawMessage `json:"input,omitzero"`     // the arguments, an object; left out when they are long
}

// ToolOutput is the output of a running tool. The TARS hub protocol has no such event: its clients skip it.
type ToolOutput struct {
	Tool       string `json:"tool"`
	ToolCallID string `json:"toolCallId,omitempty"`
	Text       string `json:"text"`
}

// ToolEnd says how the use of a tool went.
type ToolEnd struct {
	Tool       string `json:"tool"`
	File       string `json:"file,omitempty"`
	Success    bool   `json:"success"`
	Denied     bool   `json:"denied,omitzero"` // it failed because it was not permitted
	ToolCallID string `json:"toolCallId,omitempty"`
	Summary    string `json:"summary,omitempty"`
}

// Progress reports the progress of a task. It is sent when the task begins, and after each turn.
type Progress struct {
	TurnsCompleted int          `json:"turnsCompleted"`
	CostUSD        float64      `json:"costUsd"`
	Status         Status       `json:"status,omitempty"`
	Usage          *event.Usage `json:"usage,omitempty"`
}

// ActionRequired says that the task waits for an [Answer]. The Progress event that follows it says that the task continues.
// The TARS hub protocol has no such event: only tasks with [ApprovalsAsk] send it.
type ActionRequired struct {
	Actions        []Action     `json:"actions"`
	TurnsCompleted int          `json:"turnsCompleted"`
	CostUSD        float64      `json:"costUsd"`
	SessionID      string       `json:"sessionId,omitempty"`
	Usage          *event.Usage `json:"usage,omitempty"`
}

// Result ends the stream of a task that did not fail: completed, cancelled, or at one of its limits.
type Result struct {
	Status         Status       `json:"status"`
	Result         string       `json:"result,omitempty"`
	CostUSD        float64      `json:"costUsd"`
	TurnsCompleted int          `json:"turnsCompleted"`
	StopReason     string       `json:"stopReason,omitempty"`
	FilesModified  []string     `json:"filesModified,omitempty"`
	Denials        []Denial     `json:"denials,omitempty"`
	SessionID      string       `json:"sessionId,omitempty"`
	Usage          *event.Usage `json:"usage,omitempty"`
}

// Failure ends the stream of a task that failed.
type Failure struct {
	Message        string       `json:"message"`
	Recoverable    bool         `json:"recoverable"`
	Code           apierr.Code  `json:"code,omitempty"`
	Status         Status       `json:"status,omitempty"`
	CostUSD        float64      `json:"costUsd"`
	TurnsCompleted int          `json:"turnsCompleted"`
	SessionID      string       `json:"sessionId,omitempty"`
	Usage          *event.Usage `json:"usage,omitempty"`
}

// Unknown is an event of a newer spoke.
type Unknown struct {
	Event string
	Data  []byte
}

// MarshalJSON returns the data of the event.
func (u Unknown) MarshalJSON() ([]byte, error) { return u.Data, nil }

// Name is the "event:" line.
func (TextDelta) Name() string      { return "text_delta" }
func (ToolStart) Name() string      { return "tool_start" }
func (ToolOutput) Name() string     { return "tool_output" }
func (ToolEnd) Name() string        { return "tool_end" }
func (Progress) Name() string       { return "status" }
func (ActionRequired) Name() string { return "action_required" }
func (Result) Name() string         { return "result" }
func (Failure) Name() string        { return "error" }
func (u Unknown) Name() string      { return u.Event }

func (TextDelta) sealed()      {}
func (ToolStart) sealed()      {}
func (ToolOutput) sealed()     {}
func (ToolEnd) sealed()        {}
func (Progress) sealed()       {}
func (ActionRequired) sealed() {}
func (Result) sealed()         {}
func (Failure) sealed()        {}
func (Unknown) sealed()        {}

// IsTerminal reports whether an event is the last of its stream.
func IsTerminal(b Body) bool {
	switch b.(type) {
	case Result, Failure:
		return true
	default:
		return false
	}
}

// Append adds the event to dst as a frame of server-sent events.
func (e Event) Append(dst []byte) ([]byte, error) {
	data, err := jsonv2.Marshal(e.Body)
	if err != nil {
		return dst, fmt.Errorf("encode %s event: %w", e.Body.Name(), err)
	}
	return sse.Append(dst, strconv.FormatUint(e.ID, 10), e.Body.Name(), data)
}

// Decode reads a frame of a stream.
func Decode(frame sse.Event) (Event, error) {
	number, err := strconv.ParseUint(frame.ID, 10, 64)
	if err != nil || number == 0 {
		return Event{}, fmt.Errorf("%s event: its id %.40q is not a positive number", frame.Name, frame.ID)
	}
	body, err := DecodeBody(frame.Name, frame.Data)
	return Event{ID: number, Body: body}, err
}

// DecodeBody reads what the event of a name says.
func DecodeBody(name string, data []byte) (Body, error) {
	switch name {
	case TextDelta{}.Name():
		return as[TextDelta](name, data)
	case ToolStart{}.Name():
		return as[ToolStart](name, data)
	case ToolOutput{}.Name():
		return as[ToolOutput](name, data)
	case ToolEnd{}.Name():
		return as[ToolEnd](name, data)
	case Progress{}.Name():
		return as[Progress](name, data)
	case ActionRequired{}.Name():
		return as[ActionRequired](name, data)
	case Result{}.Name():
		return as[Result](name, data)
	case Failure{}.Name():
		return as[Failure](name, data)
	default:
		return Unknown{Event: cmp.Or(name, "message"), Data: data}, nil // as a stream names what has no name
	}
}

func as[B Body](name string, data []byte) (Body, error) {
	var b B
	if err := jsonv2.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("decode %s event: %w", name, err)
	}
	return b, nil
}
