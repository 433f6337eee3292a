package loop

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
)

// builtinTool returns a tool that the loop runs itself, without an executor.
func (r *run) builtinTool(name string) (t tool.Tool, own bool) {
	switch name {
	case Planning().Name:
		return tool.Func(Planning(), r.plan), true
	case FinalAnswer().Name:
		return tool.Func(FinalAnswer(), conclude), true
	default:
		return nil, false
	}
}

// settle runs a call of a built-in tool. An error is one of the log.
func settle(ctx context.Context, t tool.Tool, call backend.Call) (*Output, error) {
	result, err := t.Call(ctx, tool.Call{ID: call.ID, Args: call.Args})
	if err != nil && apierr.CodeOf(err) == apierr.ToolError {
		return fixedOutput(event.ToolFailed, "%s", apierr.From(err).Message).output, nil
	}
	if err != nil {
		return nil, err
	}
	return fixedOutput(event.ToolSuccess, "%s", result.Content).output, nil
}

// Planning is the tool with which a model maintains its plan: a call with steps replaces the plan, and one with a
// summary finishes it.
func Planning() tool.Spec {
	return tool.Spec{
		Name: "plan",
		Description: "Shows the user what you mean to do. Call it before work of several steps, again whenever a step is done or " +
			"the plan changes, each time with all steps, and at the end with a summary.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"steps":{"type":"array","minItems":1,"maxItems":100,"description":"The whole current plan.",` +
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

// plan writes the change that a call of [Planning] makes. A crashed runner may have written a part of it.
func (r *run) plan(_ context.Context, in planArgs, call tool.Call) (tool.Result, error) {
	last := r.State.Plan()
	open := last.Stage == event.StageStart || last.Stage == event.StageDelta
	written := last.ToolCallID == call.ID
	if len(in.Steps) == 0 && !open && !written {
		return tool.Result{}, apierr.New(apierr.ToolError, "there is no plan that could be finished; call plan with its steps first")
	}
	if len(in.Steps) > 0 && !written {
		stage := event.StageStart
		if open {
			stage = event.StageDelta
		}
		if err := r.events.emit(event.Plan{Stage: stage, Steps: in.Steps, ToolCallID: call.ID}); err != nil {
			return tool.Result{}, err
		}
	}
	if in.Summary != "" && (open || !written) {
		if err := r.events.emit(event.Plan{Stage: event.StageStop, Summary: in.Summary, ToolCallID: call.ID}); err != nil {
			return tool.Result{}, err
		}
	}
	return tool.Result{Content: in.state()}, nil
}

// state describes the plan's progress to the model.
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
