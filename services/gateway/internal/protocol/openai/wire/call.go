package wire

import (
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	jsonv2 "github.com/go-json-experiment/json"
)

// The functions by which a client answers actions that are not calls of its own tools.
const (
	ApprovalFunction = "approve_tool_call" // arguments: tool, arguments, question; result: {"approved":true} or {"approved":false,"reason":"…"}
	InputFunction    = "ask_user"          // arguments: question; result: the answer
)

// CallID is the id of a function call that a client answers. It contains the thread, so that the result continues the thread
// of the call: a client of a stateless API sends no other name of it.
type CallID struct {
	Kind     event.ContinuationKind
	ActionID string
	ThreadID string
}

// String returns the id as the client gets it.
func (c CallID) String() string { return string(c.Kind) + ":" + c.ActionID + ":" + c.ThreadID }

// ParseCallID parses an id. It returns false for an id that another server gave. The parts are valid if [CallID.Valid].
func ParseCallID(text string) (CallID, bool) {
	kind, rest, _ := strings.Cut(text, ":")
	actionID, threadID, found := strings.Cut(rest, ":")
	c := CallID{event.ContinuationKind(kind), actionID, threadID}
	switch c.Kind {
	case event.ContinueTool, event.ContinueApproval, event.ContinueInput:
		return c, found
	default:
		return CallID{}, false
	}
}

// Valid reports whether the id can be one that this server gave.
func (c CallID) Valid() bool { return id.Valid(c.ActionID) && id.Valid(c.ThreadID) }

// HistoryID returns the id of a call in an imported conversation; false for an approval or the answer to a question.
func HistoryID(text string) (string, bool) {
	call, ours := ParseCallID(text)
	if !ours {
		return text, true
	}
	return call.ActionID, call.Kind == event.ContinueTool
}

// Call is a function call for a client.
type Call struct {
	ID        string
	Name      string
	Arguments string // JSON
}

// CallOf returns the call that answers an action of a thread.
func CallOf(c event.Continuation, threadID string) Call {
	call := Call{ID: CallID{c.Kind, c.ActionID, threadID}.String(), Name: c.Payload.Tool, Arguments: string(c.Payload.Args)}
	switch c.Kind {
	case event.ContinueApproval:
		call.Name = ApprovalFunction
		call.Arguments = string(Encode(struct {
			Tool      string          `json:"tool"`
			Arguments json.RawMessage `json:"arguments,omitzero"`
			Question  string          `json:"question,omitempty"`
		}{c.Payload.Tool, c.Payload.Args, c.Payload.Question}))
	case event.ContinueInput:
		call.Name = InputFunction
		call.Arguments = string(Encode(struct {
			Question string `json:"question"`
		}{c.Payload.Prompt()}))
	case event.ContinueTool:
	}
	if call.Arguments == "" {
		call.Arguments = "{}"
	}
	return call
}

// Result returns the result of the action, from the text of the client.
func (c CallID) Result(where, text string) (event.ActionResult, error) {
	r := event.ActionResult{ActionID: c.ActionID, Status: event.ActionSuccess}
	if c.Kind != event.ContinueApproval {
		r.Result = Encode(text)
		return r, nil
	}
	approved, reason, ok := approval(text)
	if !ok {
		return r, Invalid(`%s must be {"approved":true} or {"approved":false,"reason":"…"}`, where)
	}
	if !approved {
		r.Status, r.Error = event.ActionDenied, reason
	}
	return r, nil
}

// approval reads a decision: true, false, or an object.
func approval(text string) (approved bool, reason string, ok bool) {
	if jsonv2.Unmarshal([]byte(text), &approved) == nil {
		return approved, "", true
	}
	var decision struct {
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	}
	if jsonv2.Unmarshal([]byte(text), &decision) != nil || decision.Approved == nil {
		return false, "", false
	}
	return *decision.Approved, decision.Reason, true
}
