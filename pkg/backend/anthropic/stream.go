package anthropic

import (
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/go-json-experiment/json"
)

// reader turns the events of one answer into chunks.
type reader struct {
	emit    backend.Emit
	outcome backend.Outcome
	usage   sdk.MessageDeltaUsage // as counted so far
	calls   map[int64]*call       // by index of the content block
	events  int
	stopped bool // the last event has come
}

// call is a tool call that is being streamed.
type call struct {
	index int    // ours
	whole string // arguments that came with the start
	args  bool   // a part of the arguments has come
}

func (r *reader) read(e sdk.MessageStreamEventUnion) error {
	r.events++
	switch e := e.AsAny().(type) {
	case sdk.MessageStartEvent:
		r.outcome.ID, r.outcome.Model = e.Message.ID, e.Message.Model
		u := e.Message.Usage
		r.count(sdk.MessageDeltaUsage{
			InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, OutputTokensDetails: u.OutputTokensDetails,
			CacheReadInputTokens: u.CacheReadInputTokens, CacheCreationInputTokens: u.CacheCreationInputTokens,
		})
	case sdk.ContentBlockStartEvent:
		return r.start(e)
	case sdk.ContentBlockDeltaEvent:
		return r.delta(e)
	case sdk.ContentBlockStopEvent:
		return r.stop(e.Index)
	case sdk.MessageDeltaEvent:
		r.count(e.Usage)
		if e.Delta.StopReason != "" {
			r.outcome.Finish = finish(e.Delta.StopReason)
		}
	case sdk.MessageStopEvent:
		r.stopped = true
	}
	return nil // an event of a newer API version
}

// count takes the counts of an event. They are totals; what an event leaves out keeps its last value.
func (r *reader) count(u sdk.MessageDeltaUsage) {
	r.usage.InputTokens = max(r.usage.InputTokens, u.InputTokens)
	r.usage.CacheReadInputTokens = max(r.usage.CacheReadInputTokens, u.CacheReadInputTokens)
	r.usage.CacheCreationInputTokens = max(r.usage.CacheCreationInputTokens, u.CacheCreationInputTokens)
	r.usage.OutputTokens = max(r.usage.OutputTokens, u.OutputTokens)
	thinking := max(r.usage.OutputTokensDetails.ThinkingTokens, u.OutputTokensDetails.ThinkingTokens)
	r.usage.OutputTokensDetails.ThinkingTokens = thinking
	r.outcome.Usage = event.Usage{
		// Their input tokens leave out what went into or came from a cache.
		InputTokens:       r.usage.InputTokens + r.usage.CacheReadInputTokens + r.usage.CacheCreationInputTokens,
		OutputTokens:      r.usage.OutputTokens,
		CachedInputTokens: r.usage.CacheReadInputTokens,
		ReasoningTokens:   thinking,
	}
}

// hidden is what readers see of thinking that the provider redacts.
const hidden = "[hidden by the provider]"

func (r *reader) start(e sdk.ContentBlockStartEvent) error {
	switch block := e.ContentBlock; block.Type {
	case "text":
		return r.text(block.Text)
	case "thinking":
		return r.thinking(block.Thinking)
	case "redacted_thinking":
		if err := r.emit(backend.ThinkingDelta(hidden)); err != nil {
			return err
		}
		return r.emit(backend.Signature(redacted + block.Data))
	case "tool_use":
		c := &call{index: len(r.calls), whole: input(block.Input)}
		if r.calls == nil {
			r.calls = map[int64]*call{}
		}
		r.calls[e.Index] = c
		return r.emit(backend.CallStart{Index: c.index, Name: block.Name})
	}
	return nil // a kind of block that we did not ask for
}

// input is the JSON text of arguments that came as a whole; "{}" when the deltas are still to bring them.
func input(value any) string {
	text, err := json.Marshal(value, json.Deterministic(true))
	if err != nil || len(text) == 0 || text[0] != '{' {
		return "{}"
	}
	return string(text)
}

func (r *reader) delta(e sdk.ContentBlockDeltaEvent) error {
	switch d := e.Delta.AsAny().(type) {
	case sdk.TextDelta:
		return r.text(d.Text)
	case sdk.ThinkingDelta:
		return r.thinking(d.Thinking)
	case sdk.SignatureDelta:
		if d.Signature == "" {
			return nil
		}
		return r.emit(backend.Signature(d.Signature))
	case sdk.InputJSONDelta:
		c := r.calls[e.Index]
		if c == nil || d.PartialJSON == "" {
			return nil
		}
		c.args = true
		return r.emit(backend.CallDelta{Index: c.index, Args: d.PartialJSON})
	}
	return nil // citations, and types of newer API versions
}

// stop gives a call whose arguments did not come in deltas those that came with its start.
func (r *reader) stop(index int64) error {
	c := r.calls[index]
	if c == nil || c.args {
		return nil
	}
	c.args = true
	return r.emit(backend.CallDelta{Index: c.index, Args: c.whole})
}

func (r *reader) text(s string) error {
	if s == "" {
		return nil
	}
	return r.emit(backend.TextDelta(s))
}

func (r *reader) thinking(s string) error {
	if s == "" {
		return nil
	}
	return r.emit(backend.ThinkingDelta(s))
}

func finish(reason sdk.StopReason) event.FinishReason {
	switch reason {
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return event.FinishLength
	case sdk.StopReasonToolUse:
		return event.FinishToolCalls
	case sdk.StopReasonRefusal:
		return event.FinishContentFilter
	default:
		return event.FinishStop
	}
}
