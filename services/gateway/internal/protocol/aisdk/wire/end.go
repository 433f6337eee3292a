package wire

import (
	"cmp"

	"github.com/agentbus/agentbus/pkg/event"
)

// end projects a terminal event.
func (m *message) end(body event.Body) {
	for len(m.open) > 0 {
		p := m.open[0]
		m.close(p)
		if p.kind != event.NameToolCall && !p.lost {
			m.emit(p.ended())
		}
	}
	done, ok := body.(event.Done)
	waits := ok && done.FinishReason == event.FinishActionRequired
	if m.step.client && !waits {
		// A client asks again as soon as all calls that it runs in the last step have outputs. An empty step follows them.
		m.step.over = true
		m.beginStep()
	}
	m.endStep()
	if m.isLast(m.requestID) {
		m.finish(body)
	}
}

// finish writes the end of the message. An error and an abort have no finish.
func (m *message) finish(body event.Body) {
	switch b := body.(type) {
	case event.Done:
		m.emit(Chunk{
			Type: Finish, FinishReason: finishReason(b.FinishReason),
			MessageMetadata: &Metadata{Usage: usageOf(&b.Usage), FinishReason: string(b.FinishReason)},
		})
	case event.Aborted:
		m.emit(Chunk{Type: MessageMetadata, MessageMetadata: &Metadata{Usage: usageOf(b.Usage), FinishReason: "aborted"}})
		m.emit(Chunk{Type: Abort, Reason: b.Reason})
	case event.Error:
		m.emit(Chunk{Type: MessageMetadata, MessageMetadata: &Metadata{
			Usage: usageOf(b.Usage), FinishReason: "error", Error: &Failure{string(b.Code), b.Retryable},
		}})
		m.emit(Chunk{Type: Error, ErrorText: cmp.Or(b.Message, string(b.Code), "unknown error")})
	}
}

// finishReason returns the name that the AI SDK has for a reason.
func finishReason(r event.FinishReason) string {
	switch r {
	case event.FinishStop, "":
		return "stop"
	case event.FinishLength, event.FinishMaxTurns, event.FinishBudget:
		return "length"
	case event.FinishToolCalls, event.FinishActionRequired:
		return "tool-calls"
	case event.FinishContentFilter, event.FinishRefusal:
		return "content-filter"
	default:
		return "other"
	}
}

// usageOf returns usage; nil = unknown.
func usageOf(u *event.Usage) *Usage {
	if u == nil {
		return nil
	}
	return &Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens,
		ReasoningTokens: u.ReasoningTokens, CachedInputTokens: u.CachedInputTokens, CostUSD: u.CostUSD,
	}
}
