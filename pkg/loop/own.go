package loop

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json/jsontext"
)

// own gives a tool that is the loop's own: no executor runs it.
func (r *run) own(name string) (t tool.Tool, own bool) {
	switch name {
	case Planning().Name:
		return tool.Func(Planning(), r.plan), true
	case FinalAnswer().Name:
		return tool.Func(FinalAnswer(), conclude), true
	default:
		return nil, false
	}
}

// settle runs a call of one of the loop's own tools. An error is the log's.
func settle(ctx context.Context, t tool.Tool, call backend.Call) (*Output, error) {
	result, err := t.Call(ctx, tool.Call{ID: call.ID, Args: call.Args})
	if err != nil && apierr.CodeOf(err) == apierr.ToolError {
		return fixed(event.ToolFailed, "%s", apierr.From(err).Message).output, nil
	}
	if err != nil {
		return nil, err
	}
	return fixed(event.ToolSuccess, "%s", result.Content).output, nil
}

// Planning is the tool by which a model keeps its plan: a call with steps states the plan as a whole, and one with a
// summary finishes it.
func Planning() tool.Spec {
	return tool.Spec{
		Name: "plan",
		Description: "Shows the user what you mean to do. Call it before work of several steps, again whenever a step is done or " +
			"the plan changes, each time with all steps, and at the end with a summary.",
		Schema: jsontext.Value(`{"type":"object","properties":{` +
			`"steps":{"type":"array","minItems":1,"maxItems":100,"description":"The whole plan as it stands.",` +
			`"items":{"type":"object","properties":{"content":{"type":"string","minLength":1,"maxLength":1000},` +
			`"done":{"type":"boolean"}},"required":["content"],"additionalProperties":false}},` +
			`"summary":{"type":"string","minLength":1,"maxLength":10000,"description":"Finishes the plan: what came of it."}},` +
			`"minProperties":1,"additionalProperties":false}`),
		Effect:   tool.EffectIdempotent,
		Approval: tool.ApprovalNever,
	}
}

type planArgs struct {
	Steps   []event.PlanStep `json:"steps,omitempty"`
	Summary string           `json:"summary,omitempty"`
}

// plan writes what a call of [Planning] changes. A dead runner may have written some of it.
func (r *run) plan(_ context.Context, in planArgs, call tool.Call) (tool.Result, error) {
	last := r.State.Plan()
	open := last.Stage == event.Start || last.Stage == event.Delta
	written := last.ToolCallID == call.ID
	if len(in.Steps) == 0 && !open && !written {
		return tool.Result{}, apierr.New(apierr.ToolError, "there is no plan that could be finished; call plan with its steps first")
	}
	if len(in.Steps) > 0 && !written {
		stage := event.Start
		if open {
			stage = event.Delta
		}
		if err := r.journal.emit(event.Plan{Stage: stage, Steps: in.Steps, ToolCallID: call.ID}); err != nil {
			return tool.Result{}, err
		}
	}
	if in.Summary != "" && (open || !written) {
		if err := r.journal.emit(event.Plan{Stage: event.Stop, Summary: in.Summary, ToolCallID: call.ID}); err != nil {
			return tool.Result{}, err
		}
	}
	return tool.Result{Content: in.state()}, nil
}

// state tells the model where its plan stands.
func (in planArgs) state() string {
	if in.Summary != "" {
		return "the plan is finished"
	}
	done, next := 0, ""
	for _, step := range in.Steps {
		switch {
		case step.Done:
			done++
		case next == "":
			next = step.Content
		}
	}
	if next == "" {
		return fmt.Sprintf("all of %d steps are done; finish the plan with a summary", done)
	}
	return fmt.Sprintf("%d of %d steps are done; next: %s", done, len(in.Steps), next)
}
