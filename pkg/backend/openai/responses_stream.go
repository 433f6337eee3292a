package openai

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/event"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// hidden is what readers see of reasoning that the provider does not summarise, where two such items follow one another.
const hidden = "[hidden by the provider]"

// responsesReader turns the events of one answer into chunks.
type responsesReader struct {
	emit    backend.Emit
	api     upstream.API
	model   string // that was asked
	outcome backend.Outcome
	calls   map[int64]*responsesCall // by the index of their items
	thought bool                     // the reasoning item has had text
	signed  bool                     // the newest chunk was a signature
	refused bool
	events  int
	ended   bool
}

type responsesCall struct {
	index int // ours
	args  bool
}

func (r *responsesReader) read(e responses.ResponseStreamEventUnion) error {
	r.events++
	switch e.Type {
	case "response.created":
		r.outcome.ID, r.outcome.Model = e.Response.ID, e.Response.Model
	case "response.output_item.added":
		return r.added(e)
	case "response.output_item.done":
		return r.done(e)
	case "response.output_text.delta":
		return r.text(e.Delta)
	case "response.refusal.delta":
		r.refused = true
		return r.text(e.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return r.thinking(e.Delta)
	case "response.reasoning_summary_part.added":
		if e.SummaryIndex > 0 {
			return r.thinking("\n\n")
		}
	case "response.function_call_arguments.delta":
		return r.arguments(e.OutputIndex, e.Delta)
	case "response.completed", "response.incomplete":
		r.ended = true
		return r.finish(e.Response)
	case "response.failed":
		return r.failed(string(e.Response.Error.Code), e.Response.Error.Message)
	case "error":
		return r.failed(e.Code, e.Message)
	}
	return nil // an event of a newer version, or one that repeats what the deltas had
}

func (r *responsesReader) added(e responses.ResponseStreamEventUnion) error {
	switch e.Item.Type {
	case "reasoning":
		r.thought = false
	case "function_call":
		if r.calls[e.OutputIndex] != nil {
			return nil
		}
		if e.Item.Name == "" {
			return r.api.Malformed(fmt.Errorf("call %d has no name", e.OutputIndex))
		}
		if r.calls == nil {
			r.calls = map[int64]*responsesCall{}
		}
		c := &responsesCall{index: len(r.calls)}
		r.calls[e.OutputIndex] = c
		r.signed = false
		return r.emit(backend.CallStart{Index: c.index, Name: e.Item.Name})
	}
	return nil
}

// done takes a whole item: only here reasoning has its final form.
func (r *responsesReader) done(e responses.ResponseStreamEventUnion) error {
	switch e.Item.Type {
	case "reasoning":
		return r.sign(e.Item)
	case "message":
		if e.Item.Phase == "" {
			return nil
		}
		return r.emit(backend.TextSignature(note{API: responsesAPI, Model: r.model, Phase: string(e.Item.Phase)}.String()))
	case "function_call":
		if err := r.added(e); err != nil { // a server may leave the start out
			return err
		}
		c := r.calls[e.OutputIndex]
		if c.args {
			return nil
		}
		args := e.Item.Arguments.OfString
		if args == "" {
			args = "{}"
		}
		return r.arguments(e.OutputIndex, args)
	}
	return nil
}

// sign ends a reasoning item. Without encrypted reasoning it cannot go back.
func (r *responsesReader) sign(item responses.ResponseOutputItemUnion) error {
	if item.EncryptedContent == "" {
		return nil
	}
	if r.signed && !r.thought {
		if err := r.thinking(hidden); err != nil {
			return err
		}
	}
	r.signed = true
	return r.emit(backend.Signature(note{API: responsesAPI, Model: r.model, ID: item.ID, Encrypted: item.EncryptedContent}.String()))
}

func (r *responsesReader) text(s string) error {
	if s == "" {
		return nil
	}
	r.signed = false
	return r.emit(backend.TextDelta(s))
}

func (r *responsesReader) thinking(s string) error {
	if s == "" {
		return nil
	}
	r.thought, r.signed = true, false
	return r.emit(backend.ThinkingDelta(s))
}

func (r *responsesReader) arguments(item int64, args string) error {
	c := r.calls[item]
	if c == nil || args == "" {
		return nil
	}
	c.args = true
	return r.emit(backend.CallDelta{Index: c.index, Args: args})
}

// finish takes the end of an answer.
func (r *responsesReader) finish(res responses.Response) error {
	u := res.Usage
	r.outcome.Usage = event.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedInputTokens: u.InputTokensDetails.CachedTokens,
		CacheWriteTokens: u.InputTokensDetails.CacheWriteTokens, ReasoningTokens: u.OutputTokensDetails.ReasoningTokens,
	}
	reason := res.IncompleteDetails.Reason
	switch {
	case res.Status != responses.ResponseStatusIncomplete && len(r.calls) > 0:
		r.outcome.Finish = event.FinishToolCalls
	case res.Status != responses.ResponseStatusIncomplete && r.refused:
		r.outcome.Finish = event.FinishRefusal
	case res.Status != responses.ResponseStatusIncomplete:
		r.outcome.Finish = event.FinishStop
	case reason == "max_output_tokens":
		r.outcome.Finish = event.FinishLength
	case reason == "content_filter":
		r.outcome.Finish = event.FinishContentFilter
	default:
		return apierr.New(apierr.AgentError, "%s ended the answer for a reason that this version does not support: %.64q", r.api.Name, reason)
	}
	return nil
}

// failed converts an error of the stream.
func (r *responsesReader) failed(code, message string) error {
	switch code {
	case outOfQuota:
		return spent(r.api, r.api.Refused(http.StatusTooManyRequests, nil, message, r.outcome.ID))
	case "rate_limit_exceeded":
		return r.api.Refused(http.StatusTooManyRequests, nil, message, r.outcome.ID)
	case "server_error", "":
		return r.api.Refused(http.StatusInternalServerError, nil, message, r.outcome.ID)
	default: // of the request: context_length_exceeded, invalid_prompt and others
		return r.api.Refused(http.StatusBadRequest, nil, message, r.outcome.ID)
	}
}

// end judges the answer once the stream is over.
func (r *responsesReader) end(res *http.Response, err error) (backend.Outcome, error) {
	if r.ended {
		return r.outcome, nil
	}
	if filtered(err) {
		r.outcome.Finish = event.FinishContentFilter
		return r.outcome, nil
	}
	if refusal, ok := errors.AsType[*sdk.Error](err); ok {
		return r.outcome, refused(r.api, refusal)
	}
	return r.outcome, r.api.Broken(res, r.events, err)
}
