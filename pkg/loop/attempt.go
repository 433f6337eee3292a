package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/transcript"
)

// How long a turn that failed waits before it is sent again. A provider that wants a longer pause is not asked again.
const (
	retryPause    = time.Second
	maxRetryPause = 5 * time.Second
)

// answer runs a turn of the model. As long as nothing of the answer has been shown, a turn that failed for a reason that may
// pass is sent once more, and then to the agent's fallback models. A fallback answers the rest of the request, too. The usage is
// that of all attempts.
func (r *run) answer(ctx context.Context, turn backend.Turn, s *turnWriter) (outcome backend.Outcome, used event.Usage, err error) {
	for again := false; ; {
		turn.Model = r.model()
		outcome, err = r.callBackend(ctx, turn, s.chunk)
		used = used.Add(r.estimatedUsage(turn.Model, outcome))
		failure, ok := errors.AsType[*apierr.Error](err)
		if !ok || ctx.Err() != nil || s.shown() || backend.TransportOf(r.Backend) != backend.LLM {
			return outcome, used, err
		}
		switch {
		case failure.Retryable && !again && failure.RetryAfter <= maxRetryPause:
			again = true
			if !pause(ctx, cmp.Or(failure.RetryAfter, retryPause)) {
				return outcome, used, context.Cause(ctx)
			}
		case (failure.Retryable || errors.Is(err, backend.ErrUnavailable)) && r.fallback < len(r.Agent.Fallback):
			r.fallback++
			again = false
			if err := r.events.emit(event.Notice{Level: "warning", Message: clean(fmt.Sprintf(
				"model %s does not answer, so %s continues: %s", turn.Model, r.model(), failure.Message))}); err != nil {
				return outcome, used, err
			}
		default:
			return outcome, used, err
		}
	}
}

// model returns the model that answers: the agent's, or the fallback that took over from it.
func (r *run) model() string {
	if r.fallback == 0 {
		return r.Agent.Model
	}
	return r.Agent.Fallback[r.fallback-1]
}

// pause waits, and reports whether ctx is still valid.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// shown reports whether the turn has produced anything but warnings.
func (s *turnWriter) shown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.produced
}

// shorten has the older part of a conversation summarised that was too long for the model, once in a request. It returns tooLong if
// that is not possible.
func (r *run) shorten(ctx context.Context, tooLong error) error {
	size := r.State.Size()
	older := r.State.Older(size/keptPart, r.overhead())
	if r.shortened || older.Size < size/gainPart {
		return tooLong
	}
	r.shortened = true
	text, usage, err := r.summarise(ctx, older.Messages, int(size))
	r.unfinished = r.unfinished.Add(usage)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.log(ctx, err)
		return tooLong
	}
	r.unfinished = r.unfinished.Sub(usage)
	return r.replace(older, text, usage)
}

// replace writes a summary that stands for the older part of the conversation.
func (r *run) replace(older transcript.Older, text string, usage event.Usage) error {
	if err := r.events.emit(event.Summary{
		Text: text, Kept: older.Kept, Strategy: strategy, Usage: usage,
		OriginalLength: r.State.Size(), CompressedLength: transcript.Tokens(len(text)) + older.KeptSize,
	}); err != nil {
		return err
	}
	return r.announce()
}

// checkPrice informs clients, once, that a limit of cost has no effect.
func (r *run) checkPrice(outcome backend.Outcome, usage event.Usage) error {
	if r.Agent.CostUSD <= 0 || r.unpriced || usage.CostUSD > 0 || usage.InputTokens+usage.OutputTokens == 0 || r.priced(r.model(), outcome) {
		return nil
	}
	r.unpriced = true
	return r.events.emit(event.Notice{Level: "warning", Message: unpriced(cmp.Or(outcome.Model, r.model()))})
}

// unpriced warns of a model without a price. Agents on other servers may name no model.
func unpriced(model string) string {
	if model == "" {
		return "the agent reports neither its cost nor its model, so the limit of cost has no effect"
	}
	return clean(fmt.Sprintf(
		"the price of model %.80q is not known, so the limit of cost has no effect; the configuration can have it under models", model))
}

// priced reports whether the price of an answer is known, if only as nothing.
func (r *run) priced(asked string, outcome backend.Outcome) bool {
	_, byAnswer := r.Price(outcome.Model, outcome.Usage)
	_, byAsked := r.Price(asked, outcome.Usage)
	return byAnswer || byAsked
}
