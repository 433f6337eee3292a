package remoteagent

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// Approvals says what becomes of a call that needs an approval which the task's permission mode does not give, and of a
// question of the agent.
type Approvals string

// The two settings. Without one, both are denied.
const (
	ApprovalsDeny Approvals = "deny"
	ApprovalsAsk  Approvals = "ask" // the task waits for an [Answer]
)

// Known reports whether a is a setting; "" is one.
func (a Approvals) Known() bool {
	return slices.Contains([]Approvals{"", ApprovalsDeny, ApprovalsAsk}, a)
}

// Action is what a task needs from the one who gave it before it continues.
type Action struct {
	ActionID    string                 `json:"actionId"`
	Kind        event.ContinuationKind `json:"kind"` // approval or input
	Tool        string                 `json:"tool"`
	ToolCallID  string                 `json:"toolCallId,omitempty"`
	Input       json.RawMessage        `json:"input,omitzero"` // the arguments of the call, an object
	Question    string                 `json:"question,omitempty"`
	RequestedAt time.Time              `json:"requestedAt"`
	ExpiresAt   time.Time              `json:"expiresAt"` // from then on the action counts as denied, and the task continues
}

// Answer is the body of POST /tasks/:id/actions: the results of some or all of the task's actions. The task continues once
// each action has one.
type Answer struct {
	ActionResults []event.ActionResult `json:"actionResults"`
	Message       string               `json:"message,omitempty"` // of the user; actions without a result then count as denied
}

// maxResults is how many action results an answer has at most.
const maxResults = 128

// Check returns what is wrong with an answer, whatever the task's actions are.
func (a Answer) Check() error {
	if n := len(a.ActionResults); n == 0 || n > maxResults {
		return fmt.Errorf("actionResults has %d results; send 1 to %d", n, maxResults)
	}
	for i, r := range a.ActionResults {
		statuses := []event.ActionStatus{event.ActionSuccess, event.ActionError, event.ActionDenied}
		switch {
		case r.ActionID == "":
			return fmt.Errorf("actionResults[%d].actionId is missing; actions of the task has it", i)
		case !slices.Contains(statuses, r.Status):
			return fmt.Errorf("actionResults[%d].status %.40q is not one of %q", i, r.Status, statuses)
		}
	}
	return nil
}

// ResultOf returns what answers say about an action; false = nothing.
func ResultOf(answers []Answer, actionID string) (r event.ActionResult, answered bool) {
	r, _, answered = find(answers, actionID)
	return r, answered
}

func find(answers []Answer, actionID string) (event.ActionResult, Answer, bool) {
	for _, a := range answers {
		for _, r := range a.ActionResults {
			if r.ActionID == actionID {
				return r, a, true
			}
		}
	}
	return event.ActionResult{}, Answer{}, false
}

// MessageOf returns the message of the user that came with the results of actions; "" without one.
func MessageOf(answers []Answer, actions []Action) string {
	for _, action := range actions {
		if _, a, ok := find(answers, action.ActionID); ok && a.Message != "" {
			return a.Message
		}
	}
	return ""
}

// Unanswered lists the actions for which the task still waits at a time.
func Unanswered(actions []Action, answers []Answer, at time.Time) (open []Action) {
	if MessageOf(answers, actions) != "" {
		return nil
	}
	for _, a := range actions {
		if _, _, answered := find(answers, a.ActionID); !answered && at.Before(a.ExpiresAt) {
			open = append(open, a)
		}
	}
	return open
}
