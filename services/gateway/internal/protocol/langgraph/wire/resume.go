package wire

import (
	"encoding/json"
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	jsonv2 "github.com/go-json-experiment/json"
)

// Results returns the answers of command.resume to the open actions of its thread. One action is answered by a value, several
// by an object with a value for each id. Clients of headless tools name the call in place of the action, or inside of it.
func Results(resume json.RawMessage, open []historyapi.Action) ([]event.ActionResult, error) {
	if len(open) == 0 {
		return nil, invalid("the thread waits for no answer; send input instead of command.resume")
	}
	values, keyed := byAction(resume, open)
	if !keyed && len(open) > 1 {
		return nil, invalid("the thread waits for %d answers: command.resume must be an object with a value for each interrupt id", len(open))
	}
	if !keyed {
		values = map[string]json.RawMessage{open[0].ActionID: resume}
	}
	var results []event.ActionResult
	for _, a := range open {
		value, answered := values[a.ActionID]
		if !answered {
			continue
		}
		one, err := result(a, value)
		if err != nil {
			return nil, err
		}
		results = append(results, one)
	}
	return results, nil
}

// byAction returns the values of an object whose members are actions, or calls that wait for them.
func byAction(resume json.RawMessage, open []historyapi.Action) (map[string]json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if jsonv2.Unmarshal(resume, &members) != nil || len(members) == 0 {
		return nil, false
	}
	values := map[string]json.RawMessage{}
	for name, value := range members {
		i := slices.IndexFunc(open, func(a historyapi.Action) bool { return a.ActionID == name || a.Payload.ToolCallID == name })
		if i < 0 {
			return nil, false
		}
		values[open[i].ActionID] = value
	}
	return values, true
}

func result(a historyapi.Action, value json.RawMessage) (event.ActionResult, error) {
	r := event.ActionResult{ActionID: a.ActionID, Status: event.ActionSuccess, Result: value}
	switch a.Kind {
	case event.ContinueTool:
		var inner map[string]json.RawMessage
		if jsonv2.Unmarshal(value, &inner) == nil && len(inner) == 1 && len(inner[a.Payload.ToolCallID]) > 0 {
			r.Result = inner[a.Payload.ToolCallID]
		}
		return failedTool(r), nil
	case event.ContinueInput:
		if d, ok := readDecision(value); ok && d.Message != "" {
			r.Result = encode(d.Message)
		}
		return r, nil
	default:
		return approval(r, value)
	}
}

// failedTool makes an error of what the published client sends for a tool that failed.
func failedTool(r event.ActionResult) event.ActionResult {
	var failure map[string]json.RawMessage
	var message string
	if jsonv2.Unmarshal(r.Result, &failure) == nil && len(failure) == 1 && jsonv2.Unmarshal(failure["error"], &message) == nil {
		return event.ActionResult{ActionID: r.ActionID, Status: event.ActionError, Error: message}
	}
	return r
}

// decision is the answer to a review.
type decision struct {
	Type    string          `json:"type"` // approve, reject, respond; accept, ignore, response of older clients
	Message string          `json:"message"`
	Args    json.RawMessage `json:"args"` // the message of older clients
}

// readDecision reads {"decisions":[{…}]}, a list with one decision, or a decision.
func readDecision(value json.RawMessage) (d decision, ok bool) {
	var list struct {
		Decisions []decision `json:"decisions"`
	}
	if jsonv2.Unmarshal(value, &list) != nil || len(list.Decisions) == 0 {
		list.Decisions = nil
		if jsonv2.Unmarshal(value, &list.Decisions) != nil {
			list.Decisions = []decision{{}}
			if jsonv2.Unmarshal(value, &list.Decisions[0]) != nil {
				return d, false
			}
		}
	}
	if len(list.Decisions) != 1 || list.Decisions[0].Type == "" {
		return d, false
	}
	d = list.Decisions[0]
	var text string
	if d.Message == "" && jsonv2.Unmarshal(d.Args, &text) == nil {
		d.Message = text
	}
	return d, true
}

// approval reads a decision, true or false, or {"approved":true}.
func approval(r event.ActionResult, value json.RawMessage) (event.ActionResult, error) {
	r.Result = nil
	var approved bool
	var object struct {
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	}
	if jsonv2.Unmarshal(value, &approved) == nil {
		return decided(r, approved, ""), nil
	}
	if jsonv2.Unmarshal(value, &object) == nil && object.Approved != nil {
		return decided(r, *object.Approved, object.Reason), nil
	}
	d, ok := readDecision(value)
	if !ok {
		return r, invalid(`the answer to an approval must be {"decisions":[{"type":"approve"}]} or {"decisions":[{"type":"reject","message":"…"}]}`)
	}
	switch d.Type {
	case decideApprove, "accept":
		return decided(r, true, ""), nil
	case decideReject, decideRespond, "ignore", "response":
		return decided(r, false, d.Message), nil
	default:
		return r, invalid("the decision %.40q is not supported; an approval is for the arguments that were shown: use approve or reject", d.Type)
	}
}

func decided(r event.ActionResult, approved bool, reason string) event.ActionResult {
	if !approved {
		r.Status, r.Error = event.ActionDenied, reason
	}
	return r
}
