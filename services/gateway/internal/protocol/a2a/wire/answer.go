package wire

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// answer is a data part that answers an action.
type answer struct {
	ActionID string          `json:"actionId"`
	Approved *bool           `json:"approved"` // of an approval
	Reason   string          `json:"reason"`
	Answer   *string         `json:"answer"` // of a question
	Result   json.RawMessage `json:"result"` // of a tool of the client
	Error    string          `json:"error"`
}

// answerOf returns the result that a data part gives to one of the actions that a task waits for; false if it is not an answer.
// If only one action waits, an answer need not name it.
func answerOf(where string, data json.RawMessage, waiting []event.Continuation) (r event.ActionResult, ok bool, err error) {
	var a answer
	if jsonv2.Unmarshal(data, &a) != nil {
		return r, false, nil //nolint:nilerr // other data is not an answer
	}
	says := a.Approved != nil || a.Answer != nil || len(a.Result) > 0 || a.Error != ""
	if a.ActionID == "" && (!says || len(waiting) != 1) {
		return r, false, nil
	}
	if a.ActionID == "" {
		a.ActionID = waiting[0].ActionID
	}
	i := slices.IndexFunc(waiting, func(c event.Continuation) bool { return c.ActionID == a.ActionID })
	if i < 0 {
		return r, false, apierr.New(apierr.InvalidActionID, "%s answers action %.80q, for which the task does not wait", where, a.ActionID)
	}
	r, err = a.result(where, waiting[i].Kind)
	return r, err == nil, err
}

// result returns the result of an action of a kind.
func (a answer) result(where string, kind event.ContinuationKind) (event.ActionResult, error) {
	r := event.ActionResult{ActionID: a.ActionID, Status: event.ActionSuccess}
	switch {
	case kind == event.ContinueApproval && a.Approved == nil:
		return r, invalid(`%s must have the member "approved": true or false`, where)
	case kind == event.ContinueApproval && !*a.Approved:
		r.Status, r.Error = event.ActionDenied, a.Reason
	case kind == event.ContinueApproval:
	case a.Error != "":
		r.Status, r.Error = event.ActionError, a.Error
	case kind == event.ContinueInput && a.Answer == nil:
		return r, invalid(`%s must have the member "answer"`, where)
	case kind == event.ContinueInput:
		r.Result = encode(*a.Answer)
	case len(a.Result) == 0:
		return r, invalid(`%s must have the member "result" or "error"`, where)
	default:
		r.Result = a.Result
	}
	return r, nil
}

// answerInText returns the result that a message of text alone gives to the one action that a task waits for: any text answers a
// question, and "approve" or "deny" an approval.
func answerInText(text string, waiting []event.Continuation) (r event.ActionResult, ok bool) {
	if len(waiting) != 1 {
		return r, false
	}
	r = event.ActionResult{ActionID: waiting[0].ActionID, Status: event.ActionSuccess}
	switch waiting[0].Kind {
	case event.ContinueInput:
		r.Result = encode(text)
		return r, true
	case event.ContinueApproval:
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "approve":
			return r, true
		case "deny":
			r.Status = event.ActionDenied
			return r, true
		}
	case event.ContinueTool:
	}
	return r, false
}
