package wire

import (
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/event"
)

// Interrupt is an action that the thread waits for.
type Interrupt struct {
	ID    string         `json:"id"`
	Value InterruptValue `json:"value"`
}

// InterruptValue describes an action: an approval as LangChain's human-in-the-loop middleware does, a call of a client tool as
// its headless tools, and a question.
type InterruptValue struct {
	Type     string `json:"type,omitempty"`     // input, tool; "" = approval
	Question string `json:"question,omitempty"` // for the user

	ActionRequests []actionRequest `json:"action_requests,omitempty"`
	ReviewConfigs  []reviewConfig  `json:"review_configs,omitempty"`

	ToolCall *toolCallRef `json:"tool_call,omitempty"`
	JSCall   *toolCallRef `json:"toolCall,omitempty"` // the same, as JavaScript servers name it
}

type actionRequest struct {
	Name        string          `json:"name"`
	Args        json.RawMessage `json:"args"`
	Description string          `json:"description,omitempty"`
}

type reviewConfig struct {
	ActionName       string   `json:"action_name"`
	AllowedDecisions []string `json:"allowed_decisions"`
}

type toolCallRef struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

const (
	interruptInput = "input"
	interruptTool  = "tool"
)

// The decisions of a review. An edit is refused: an approval is for the arguments that the user has seen.
const (
	decideApprove = "approve"
	decideReject  = "reject"
	decideRespond = "respond"
)

// NewInterrupt returns the interrupt of an action.
func NewInterrupt(actionID string, kind event.ContinuationKind, p event.ContinuationAction) Interrupt {
	one := Interrupt{ID: actionID, Value: InterruptValue{Question: p.Question}}
	switch kind {
	case event.ContinueApproval:
		one.Value.ActionRequests = []actionRequest{{p.Tool, object(p.Args), p.Question}}
		one.Value.ReviewConfigs = []reviewConfig{{p.Tool, []string{decideApprove, decideReject}}}
	case event.ContinueTool:
		call := &toolCallRef{p.ToolCallID, p.Tool, object(p.Args)}
		one.Value.Type, one.Value.ToolCall, one.Value.JSCall = interruptTool, call, call
	case event.ContinueInput:
		one.Value.Type = interruptInput
	}
	return one
}
