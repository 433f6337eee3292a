package anthropic

import (
	"cmp"
	"slices"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	sdk "github.com/anthropics/anthropic-sdk-go"
)

// bindingBeta is the header that allows block_binding: without it, a model with preserved thinking refuses a conversation of
// which anything before a thinking block has changed, such as the tools, the instructions, or a part that was summarised.
const bindingBeta = "thinking-binding-controls-2026-08-01"

// think sets how the model thinks.
func (q *query) think(turn backend.Turn) {
	if turn.Effort == backend.EffortNone {
		q.thinkNot()
		return
	}
	asked := turn.Thinking > 0 || turn.Effort != ""
	switch {
	case q.traits.adaptive && (asked || q.traits.preserved):
		q.adaptive(turn, asked)
	case !q.traits.adaptive && asked:
		q.budget(turn)
	}
}

func (q *query) thinkNot() {
	switch {
	case q.traits.always:
		q.warn("%s always thinks; effort none has no effect", q.params.Model)
	case q.traits.adaptive:
		q.params.Thinking.OfDisabled = &sdk.ThinkingConfigDisabledParam{}
	}
}

// adaptive lets the model decide how much it thinks. The limit of the answer includes the thinking.
func (q *query) adaptive(turn backend.Turn, asked bool) {
	adaptive := sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}
	if q.traits.preserved && !q.unbound {
		adaptive.SetExtraFields(map[string]any{"block_binding": map[string]string{"prefix_mismatch_behavior": "drop_block"}})
		q.bound = true
	}
	q.params.Thinking.OfAdaptive = &adaptive
	if !asked {
		q.params.MaxTokens += mediumThinking
		return
	}
	effort := cmp.Or(turn.Effort, effortOf(turn.Thinking))
	q.params.OutputConfig.Effort = sdk.OutputConfigEffort(effort)
	q.params.MaxTokens += int64(cmp.Or(turn.Thinking, budgetOf(effort)))
}

// budget turns thinking on with a number of tokens. With tool results, the API requires the thinking before the calls; if
// another model made the calls, that is missing and thinking stays off for this turn. A forced call excludes it too.
func (q *query) budget(turn backend.Turn) {
	if q.traits.effort && turn.Effort != "" {
		q.params.OutputConfig.Effort = sdk.OutputConfigEffort(turn.Effort)
	}
	switch {
	case forces(turn):
		q.warn("thinking is off for this turn: the model must call a tool")
		return
	case q.plain || !thoughtBeforeCalls(turn.Messages):
		q.warn("thinking is off for this turn: the thinking before its tool calls is not this provider's")
		return
	}
	budget := int64(max(cmp.Or(turn.Thinking, budgetOf(turn.Effort)), minThinking))
	q.params.Thinking = sdk.ThinkingConfigParamOfEnabled(budget)
	q.params.MaxTokens += budget
}

// thinks reports whether the request turns thinking on.
func (q *query) thinks() bool {
	return q.params.Thinking.OfEnabled != nil || q.params.Thinking.OfAdaptive != nil
}

// forces reports whether the model must call a tool.
func forces(turn backend.Turn) bool {
	c := turn.Request.ToolChoice
	return c != nil && len(turn.Tools) > 0 && (c.Mode == event.ChooseRequired || c.Mode == event.ChooseTool)
}

// thoughtBeforeCalls reports whether what the assistant said since the user spoke, if anything, begins with thinking that
// the provider signed.
func thoughtBeforeCalls(messages []backend.Message) bool {
	for i, m := range slices.Backward(messages) {
		if m.Role != backend.User {
			continue
		}
		said := slices.IndexFunc(messages[i:], func(m backend.Message) bool { return m.Role == backend.Assistant })
		return said < 0 || beginsSigned(messages[i+said].Parts)
	}
	return true
}

func beginsSigned(parts []backend.Part) bool {
	if len(parts) == 0 {
		return false
	}
	thinking, ok := parts[0].(backend.Thinking)
	return ok && own(thinking.Signature)
}
