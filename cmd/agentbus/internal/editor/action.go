package editor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// decide asks the user about actions and returns the results. Without results, the next prompt answers.
func (t *turn) decide(ctx context.Context, open []event.Continuation) ([]event.ActionResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() { // ends with this call
		select {
		case <-t.cancelled:
			cancel(errCancelled)
		case <-stop:
		}
	}()
	var results []event.ActionResult
	var questions []event.Continuation
	for _, action := range open {
		result, answered, err := t.ask(ctx, action)
		if err != nil {
			return nil, t.leave(open, err)
		}
		if !answered {
			questions = append(questions, action)
			continue
		}
		result.ActionID = action.ActionID
		results = append(results, result)
	}
	if len(results) > 0 || len(questions) == 0 {
		return results, nil // the next request announces the questions again
	}
	return nil, t.session.pose(questions)
}

// leave ends the calls that wait for an answer, when the user gives none.
func (t *turn) leave(open []event.Continuation, err error) error {
	for _, action := range open {
		if action.Payload.ToolCallID == "" {
			continue
		}
		_ = t.session.update(acp.Update{ // err is the one that counts
			SessionUpdate: acp.UpdateToolProgress, ToolCall: acp.ToolCall{ToolCallID: action.Payload.ToolCallID, Status: acp.ToolFailed},
		})
	}
	return err
}

// pose writes questions as messages. The next prompt answers the first one.
func (s *session) pose(questions []event.Continuation) error {
	for _, q := range questions {
		if err := s.chunk(acp.UpdateAgentMessage, q.ActionID, askingAgent(q.Payload)+q.Payload.Prompt()+"\n"); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.questions = questions
	return nil
}

// restore keeps the open actions of a session that was loaded: the next prompt answers them.
func (s *session) restore(actions []event.Continuation) error {
	var questions, open []event.Continuation
	for _, action := range actions {
		if action.Kind == event.ContinueInput && !s.server.showsForms() {
			questions = append(questions, action)
		} else {
			open = append(open, action)
		}
	}
	s.mu.Lock()
	s.open = open
	s.mu.Unlock()
	return s.pose(questions)
}

// showsForms reports whether the editor lets users fill in forms.
func (s *Server) showsForms() bool {
	e := s.capabilities().Elicitation
	return e != nil && (e.Form != nil || e.URL == nil) // an empty object means forms
}

// ask asks the user about one action; answered is false for a question that the editor cannot show.
func (t *turn) ask(ctx context.Context, action event.Continuation) (result event.ActionResult, answered bool, err error) {
	switch action.Kind {
	case event.ContinueApproval:
		result, err = t.approve(ctx, action.Payload)
		return result, true, err
	case event.ContinueInput:
		if !t.session.server.showsForms() {
			return result, false, nil
		}
		result, err = t.elicit(ctx, action.Payload)
		return result, true, err
	default:
		return event.ActionResult{
			Status: event.ActionError, Error: "the editor runs no client tools; use another client for this agent",
		}, true, nil
	}
}

// The options of an approval.
const (
	optionAllow = "allow"
	optionDeny  = "deny"
)

// approve asks whether a call may run. Anything but the permission denies it.
func (t *turn) approve(ctx context.Context, call event.ContinuationAction) (event.ActionResult, error) {
	title := askingAgent(call) + call.Tool
	if call.Again {
		title += " was interrupted, and may have run: run it again?"
	}
	var response acp.PermissionResponse
	err := t.session.server.conn.Call(ctx, acp.MethodPermission, acp.PermissionRequest{
		SessionID: t.session.id,
		ToolCall: acp.ToolCall{
			ToolCallID: call.ToolCallID, Title: title, Kind: kindOf(call.Tool), Status: acp.ToolPending, RawInput: call.Args,
		},
		Options: []acp.PermissionOption{
			{OptionID: optionAllow, Name: "Allow", Kind: acp.AllowOnce}, {OptionID: optionDeny, Name: "Deny", Kind: acp.RejectOnce},
		},
	}, &response)
	if ctx.Err() != nil {
		return event.ActionResult{}, context.Cause(ctx)
	}
	if err != nil {
		return event.ActionResult{Status: event.ActionDenied, Error: fmt.Sprintf("the editor has not asked the user: %v", err)}, nil
	}
	switch {
	case response.Outcome.Outcome == acp.OutcomeCancelled:
		return event.ActionResult{}, errCancelled
	case response.Outcome.Outcome == acp.OutcomeSelected && response.Outcome.OptionID == optionAllow:
		return event.ActionResult{Status: event.ActionSuccess}, nil
	default:
		return event.ActionResult{Status: event.ActionDenied}, nil
	}
}

// form is the schema of a question with one text.
const form = `{"type":"object","properties":{"answer":{"type":"string","title":"Answer"}},"required":["answer"]}`

// elicit lets the user answer a question in a form.
func (t *turn) elicit(ctx context.Context, question event.ContinuationAction) (event.ActionResult, error) {
	schema := question.Schema
	if schema == nil {
		schema = json.RawMessage(form)
	}
	page := question
	page.Schema = nil // the form shows it
	var response acp.ElicitationResponse
	err := t.session.server.conn.Call(ctx, acp.MethodElicit, acp.ElicitationRequest{
		SessionID: t.session.id, ToolCallID: question.ToolCallID, Mode: "form",
		Message: askingAgent(question) + page.Prompt(), RequestedSchema: schema,
	}, &response)
	switch {
	case ctx.Err() != nil:
		return event.ActionResult{}, context.Cause(ctx)
	case err != nil:
		return event.ActionResult{Status: event.ActionDenied, Error: fmt.Sprintf("the editor has not asked the user: %v", err)}, nil
	case response.Action == "cancel":
		return event.ActionResult{}, errCancelled
	case response.Action != "accept":
		return event.ActionResult{Status: event.ActionDenied}, nil
	}
	if question.Schema != nil {
		return event.ActionResult{Status: event.ActionSuccess, Result: response.Content}, nil
	}
	var content struct {
		Answer string `json:"answer"`
	}
	result := event.ActionResult{Status: event.ActionError, Error: "the answer of the editor does not have the form that was asked for"}
	if jsonv2.Unmarshal(response.Content, &content) == nil {
		result = event.ActionResult{Status: event.ActionSuccess, Result: quote(content.Answer)}
	}
	return result, nil
}

// answerOf is a prompt as the answer to a question.
func answerOf(question event.Continuation, text string) event.ActionResult {
	return event.ActionResult{ActionID: question.ActionID, Status: event.ActionSuccess, Result: quote(text)}
}

// askingAgent names the agent that asks, if it is one that the agent of the session has called.
func askingAgent(action event.ContinuationAction) string {
	if action.Agent == nil {
		return ""
	}
	return action.Agent.AgentID + ": "
}

// quote returns a text as JSON.
func quote(text string) json.RawMessage {
	value, _ := jsonv2.Marshal(text) // a valid text always has a JSON form
	return value
}
