package openai

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
	sdk "github.com/openai/openai-go/v3"
)

// reader turns the chunks of one answer into ours.
type reader struct {
	emit    backend.Emit
	outcome backend.Outcome
	calls   []call // in the order in which they began; the place is our index
	chunks  int
	counted bool // the usage has come
}

// call is a tool call that is being streamed.
type call struct {
	index int64  // theirs
	id    string // theirs
	name  string // "" until it has come, and with it our CallStart
	args  bool   // a part of the arguments has come
}

func (r *reader) read(c sdk.ChatCompletionChunk) error {
	r.chunks++
	if c.ID != "" {
		r.outcome.ID = c.ID
	}
	if c.Model != "" {
		r.outcome.Model = c.Model
	}
	if c.JSON.Usage.Valid() {
		r.count(c.Usage)
	}
	if len(c.Choices) == 0 {
		return nil
	}
	choice := c.Choices[0] // we ask for one
	if err := r.delta(choice.Delta); err != nil {
		return err
	}
	if choice.FinishReason != "" {
		r.outcome.Finish = finish(choice.FinishReason)
	}
	return nil
}

func (r *reader) count(u sdk.CompletionUsage) {
	r.counted = true
	r.outcome.Usage = event.Usage{
		InputTokens:       u.PromptTokens,
		OutputTokens:      u.CompletionTokens,
		CachedInputTokens: u.PromptTokensDetails.CachedTokens,
		ReasoningTokens:   u.CompletionTokensDetails.ReasoningTokens,
	}
}

func (r *reader) delta(d sdk.ChatCompletionChunkChoiceDelta) error {
	if thought := reasoning(d); thought != "" {
		if err := r.emit(backend.ThinkingDelta(thought)); err != nil {
			return err
		}
	}
	for _, text := range []string{d.Content, d.Refusal} {
		if text == "" {
			continue
		}
		if err := r.emit(backend.TextDelta(text)); err != nil {
			return err
		}
	}
	for _, tc := range d.ToolCalls {
		if err := r.toolCall(tc); err != nil {
			return err
		}
	}
	return nil
}

// reasoning reads the members in which compatible servers show what a model thinks. Some send both with the same text.
func reasoning(d sdk.ChatCompletionChunkChoiceDelta) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		field, ok := d.JSON.ExtraFields[name]
		if !ok {
			continue
		}
		var text string
		if err := json.Unmarshal([]byte(field.Raw()), &text); err == nil && text != "" {
			return text // a member of another type is not ours to read
		}
	}
	return ""
}

// toolCall takes a piece of a call. Another id at the same index is another call: some servers number all of them 0.
func (r *reader) toolCall(tc sdk.ChatCompletionChunkChoiceDeltaToolCall) error {
	i := r.find(tc.Index)
	if i < 0 || tc.ID != "" && r.calls[i].id != "" && tc.ID != r.calls[i].id {
		i = len(r.calls)
		r.calls = append(r.calls, call{index: tc.Index})
	}
	c := &r.calls[i]
	if tc.ID != "" {
		c.id = tc.ID
	}
	if c.name == "" && tc.Function.Name != "" {
		c.name = tc.Function.Name
		if err := r.emit(backend.CallStart{Index: i, Name: c.name}); err != nil {
			return err
		}
	}
	if tc.Function.Arguments == "" || c.name == "" {
		return nil
	}
	c.args = true
	return r.emit(backend.CallDelta{Index: i, Args: tc.Function.Arguments})
}

// find returns our index of the newest call with their index, or -1.
func (r *reader) find(index int64) int {
	for i, c := range slices.Backward(r.calls) {
		if c.index == index {
			return i
		}
	}
	return -1
}

// end checks the answer at the end of the stream. A finish reason marks a complete answer; only the usage follows it,
// and a missing usage does not fail the answer.
func (r *reader) end(api upstream.API, res *http.Response, err error) (backend.Outcome, error) {
	if r.outcome.Finish == "" {
		return r.outcome, r.fault(api, res, err)
	}
	if err := r.closeCalls(api); err != nil {
		return r.outcome, err
	}
	if !r.counted {
		return r.outcome, r.emit(backend.Warning("the provider did not say how many tokens the answer took"))
	}
	return r.outcome, nil
}

// closeCalls gives calls without arguments the empty object.
func (r *reader) closeCalls(api upstream.API) error {
	for i, c := range r.calls {
		if c.name == "" {
			return api.Malformed(fmt.Errorf("call %d has no name", c.index))
		}
		if c.args {
			continue
		}
		if err := r.emit(backend.CallDelta{Index: i, Args: "{}"}); err != nil {
			return err
		}
	}
	if len(r.calls) > 0 && r.outcome.Finish == event.FinishStop {
		r.outcome.Finish = event.FinishToolCalls // some servers say stop after calls, too
	}
	return nil
}

func finish(reason string) event.FinishReason {
	switch reason {
	case "length":
		return event.FinishLength
	case "tool_calls", "function_call":
		return event.FinishToolCalls
	case "content_filter":
		return event.FinishContentFilter
	default:
		return event.FinishStop
	}
}
