package metrics

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Backend is b, watched: a span and the metrics of each turn. provider is who answers: openai, anthropic, scripted.
func (m *Meters) Backend(b backend.Backend, provider string) backend.Backend {
	return backend.Around(b, func(send backend.Send) backend.Send {
		return measuredBackend{meters: m, send: send, provider: provider}.Send
	})
}

type measuredBackend struct {
	meters   *Meters
	send     backend.Send
	provider string
}

// Send is a [backend.Send].
func (w measuredBackend) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	names := []attribute.KeyValue{
		telemetry.GenAIOperationName.String(telemetry.OperationChat),
		telemetry.GenAIProviderName.String(w.provider), telemetry.GenAIRequestModel.String(turn.Model),
	}
	ctx, span := w.meters.tracer.Start(ctx, telemetry.OperationChat+" "+turn.Model,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(names...), trace.WithAttributes(
			telemetry.GenAIConversationID.String(turn.ThreadID), telemetry.RequestID.String(turn.RequestID)))
	defer span.End()
	start := time.Now()
	started, length := false, 0
	outcome, err := w.send(ctx, turn, func(c backend.Chunk) error {
		if !started {
			started = true
			w.meters.first.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(names...))
		}
		if text, ok := c.(backend.TextDelta); ok {
			length += utf8.RuneCountInString(string(text))
		}
		return emit(c)
	})
	if length > 0 {
		w.meters.length.Record(ctx, int64(length), metric.WithAttributes(names...))
	}
	if err != nil {
		names = append(names, telemetry.ErrorType.String(string(apierr.CodeOf(err))))
	}
	w.meters.duration.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(names...))
	w.meters.count(ctx, outcome, names)
	span.SetAttributes(
		telemetry.GenAIResponseModel.String(outcome.Model), telemetry.GenAIResponseID.String(outcome.ID),
		telemetry.GenAIFinishReasons.StringSlice([]string{string(outcome.Finish)}),
		telemetry.GenAIInputTokens.Int64(outcome.Usage.InputTokens),
		telemetry.GenAIOutputTokens.Int64(outcome.Usage.OutputTokens),
		telemetry.GenAICacheReadInputTokens.Int64(outcome.Usage.CachedInputTokens),
	)
	fail(span, err)
	return outcome, err
}

func (m *Meters) count(ctx context.Context, outcome backend.Outcome, names []attribute.KeyValue) {
	for kind, n := range map[string]int64{"input": outcome.Usage.InputTokens, "output": outcome.Usage.OutputTokens} {
		if n > 0 {
			m.tokens.Record(ctx, n, metric.WithAttributes(names...), metric.WithAttributes(telemetry.GenAITokenType.String(kind)))
		}
	}
}
