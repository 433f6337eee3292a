package wire

import (
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// result answers an interrupt. An approval allows a call only if its payload says so.
func (r ResumeEntry) result(where string) (event.ActionResult, error) {
	kind, actionID, _ := strings.Cut(r.InterruptID, ":")
	a := event.ActionResult{ActionID: actionID, Status: event.ActionSuccess}
	if r.Status == "cancelled" {
		a.Status, a.Error = event.ActionDenied, "cancelled"
		return a, nil
	}
	switch event.ContinuationKind(kind) {
	case event.ContinueApproval:
		err := r.approval(where, &a)
		return a, err
	case event.ContinueInput:
		a.Result = r.answer()
	default:
		a.Result = r.Payload
	}
	if len(a.Result) == 0 {
		return a, invalid("%s.payload is missing; send the answer, or status \"cancelled\"", where)
	}
	return a, nil
}

// approval reads {"approved":true} or true, and a reason.
func (r ResumeEntry) approval(where string, a *event.ActionResult) error {
	var payload struct {
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	}
	err := jsonv2.Unmarshal(r.Payload, &payload)
	if err != nil || payload.Approved == nil {
		payload.Approved = new(bool)
		err = jsonv2.Unmarshal(r.Payload, payload.Approved)
	}
	if err != nil || jsontext.Value(r.Payload).Kind() == jsontext.KindNull {
		return invalid("%s.payload must be {\"approved\":true} or {\"approved\":false}", where)
	}
	if !*payload.Approved {
		a.Status, a.Error = event.ActionDenied, payload.Reason
	}
	return nil
}

// answer is the member answer of the payload, or the whole payload if it has none.
func (r ResumeEntry) answer() json.RawMessage {
	var payload struct {
		Answer json.RawMessage `json:"answer"`
	}
	if jsonv2.Unmarshal(r.Payload, &payload) == nil && len(payload.Answer) > 0 {
		return payload.Answer
	}
	if jsontext.Value(r.Payload).Kind() == jsontext.KindNull {
		return nil
	}
	return r.Payload
}
