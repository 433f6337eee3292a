package anthropic

import (
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/go-json-experiment/json"
)

// reader turns the events of one answer into chunks.
type reader struct {
	emit     backend.Emit
	model    string   // that was asked
	warnings []string // to be emitted with the answer
	outcome  backend.Outcome
	before   event.Usage           // of the earlier streams of a paused answer
	usage    sdk.MessageDeltaUsage // as counted so far
	calls    map[int64]*call       // by index of the content block
	made     int                   // calls of the answer
	said     said
	events   int
	stopped  bool   // the last event has come
	paused   bool   // the provider wants the answer back, to continue it
	unknown  string // a stop reason that this version does not know
}

// begin prepares for a stream. Only what counts for the whole answer is kept.
func (r *reader) begin() {
	*r = reader{emit: r.emit, model: r.model, warnings: r.warnings, outcome: r.outcome, before: r.outcome.Usage, made: r.made}
	r.outcome.Finish = ""
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
		return r.warn()
	case sdk.ContentBlockStartEvent:
		r.said.start(e)
		return r.start(e)
	case sdk.ContentBlockDeltaEvent:
		r.said.delta(e)
		return r.delta(e)
	case sdk.ContentBlockStopEvent:
		return r.stop(e.Index)
	case sdk.MessageDeltaEvent:
		r.count(e.Usage)
		r.finish(e.Delta.StopReason)
	case sdk.MessageStopEvent:
		r.stopped = true
	}
	return nil // an event of a newer API version
}

// warn emits the warnings of the request, once its answer has begun: a request that was refused may be sent again.
func (r *reader) warn() error {
	for _, text := range r.warnings {
		if err := r.emit(backend.Warning(text)); err != nil {
			return err
		}
	}
	r.warnings = nil
	return nil
}

// count takes the counts of an event. They are totals; what an event leaves out keeps its last value.
func (r *reader) count(u sdk.MessageDeltaUsage) {
	r.usage.InputTokens = max(r.usage.InputTokens, u.InputTokens)
	r.usage.CacheReadInputTokens = max(r.usage.CacheReadInputTokens, u.CacheReadInputTokens)
	r.usage.CacheCreationInputTokens = max(r.usage.CacheCreationInputTokens, u.CacheCreationInputTokens)
	r.usage.OutputTokens = max(r.usage.OutputTokens, u.OutputTokens)
	thinking := max(r.usage.OutputTokensDetails.ThinkingTokens, u.OutputTokensDetails.ThinkingTokens)
	r.usage.OutputTokensDetails.ThinkingTokens = thinking
	r.outcome.Usage = r.before.Add(event.Usage{
		// Their input tokens leave out what went into or came from a cache.
		InputTokens:       r.usage.InputTokens + r.usage.CacheReadInputTokens + r.usage.CacheCreationInputTokens,
		OutputTokens:      r.usage.OutputTokens,
		CachedInputTokens: r.usage.CacheReadInputTokens,
		CacheWriteTokens:  r.usage.CacheCreationInputTokens,
		ReasoningTokens:   thinking,
	})
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
		c := &call{index: r.made, whole: input(block.Input)}
		r.made++
		if r.calls == nil {
			r.calls = map[int64]*call{}
		}
		r.calls[e.Index] = c
		if err := r.emit(backend.CallStart{Index: c.index, Name: block.Name}); err != nil || !strings.HasPrefix(block.ID, callPrefix) {
			return err
		}
		return r.emit(backend.CallSignature{Index: c.index, Signature: block.ID})
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

func (r *reader) finish(reason sdk.StopReason) {
	switch reason {
	case "":
	case sdk.StopReasonEndTurn, sdk.StopReasonStopSequence:
		r.outcome.Finish = event.FinishStop
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		r.outcome.Finish = event.FinishLength
	case sdk.StopReasonToolUse:
		r.outcome.Finish = event.FinishToolCalls
	case sdk.StopReasonRefusal:
		r.outcome.Finish = event.FinishRefusal
	case sdk.StopReasonPauseTurn:
		r.paused = r.made == 0 // calls of our tools must have their results first
		r.outcome.Finish = event.FinishToolCalls
	default:
		r.unknown = string(reason)
	}
}
