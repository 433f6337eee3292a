package metrics

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

type speaker struct{ err error }

func (s speaker) Run(_ context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if err := emit(backend.TextDelta("secret words")); err != nil {
		return backend.Outcome{}, err
	}
	return backend.Outcome{
		Finish: event.FinishStop, Model: "small-1", ID: "answer_1", Usage: event.Usage{InputTokens: 7, OutputTokens: 2},
	}, s.err
}

func run(t *testing.T, failure error) (tracetest.SpanStubs, map[string]metricdata.Aggregation) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	reader := sdkmetric.NewManualReader()
	m, err := New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := m.Invoke(t.Context(), Request{Tenant: "acme", Agent: "demo", ThreadID: "thr_1", RequestID: "req_1"})
	turn := backend.Turn{Model: "small", ThreadID: "thr_1", RequestID: "req_1"}
	session, err := m.Backend(backend.Stateless(speaker{failure}), "scripted").Start(ctx, backend.Start{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Send(ctx, turn, func(backend.Chunk) error { return nil }); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	end("error", apierr.AgentError, nil)
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	metrics := map[string]metricdata.Aggregation{}
	for _, one := range data.ScopeMetrics[0].Metrics {
		metrics[one.Name] = one.Data
	}
	return spans.GetSpans(), metrics
}

func TestATurnIsASpanWithinItsRequest(t *testing.T) {
	t.Parallel()
	spans, metrics := run(t, nil)
	chat, invoke := spans[0], spans[1]
	if chat.Name != "chat small" || chat.SpanKind != trace.SpanKindClient || chat.Parent.SpanID() != invoke.SpanContext.SpanID() {
		t.Errorf("the turn's span is %q of kind %s", chat.Name, chat.SpanKind)
	}
	if invoke.Name != "invoke_agent demo" || invoke.SpanKind != trace.SpanKindInternal {
		t.Errorf("the request's span is %q of kind %s", invoke.Name, invoke.SpanKind)
	}
	for _, want := range []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.response.model", "small-1"),
		attribute.Int64("gen_ai.usage.input_tokens", 7), attribute.String("agentbus.request.id", "req_1"),
	} {
		if !slices.Contains(chat.Attributes, want) {
			t.Errorf("the turn's span lacks %s=%s", want.Key, want.Value.String())
		}
	}
	for _, name := range []string{
		"gen_ai.client.operation.duration", "gen_ai.client.token.usage", "gen_ai.client.operation.time_to_first_chunk",
		"agentbus.runs", "agentbus.runs.in.flight", "agentbus.response.length",
	} {
		if metrics[name] == nil {
			t.Errorf("there is no metric %s", name)
		}
	}
	if length := metrics["agentbus.response.length"].(metricdata.Histogram[int64]).DataPoints[0]; length.Count != 1 || length.Sum != 12 {
		t.Errorf("%d responses have %d characters, want one of 12", length.Count, length.Sum)
	}
	ended := metrics["agentbus.runs"].(metricdata.Sum[int64]).DataPoints[0].Attributes
	if code, _ := ended.Value("error.type"); code.AsString() != string(apierr.AgentError) {
		t.Errorf("the request ended with %v, want its code", ended.ToSlice())
	}
	if sum := metrics["agentbus.runs.in.flight"].(metricdata.Sum[int64]); sum.DataPoints[0].Value != 0 {
		t.Errorf("%d requests are in flight after the end", sum.DataPoints[0].Value)
	}
}

func TestErrorDoesNotContainSecrets(t *testing.T) {
	t.Parallel()
	spans, _ := run(t, errors.New("password 1234"))
	if got := spans[0].Status; got.Code != codes.Error || got.Description == "password 1234" {
		t.Errorf("the span's status is %+v", got)
	}
	if want := attribute.String("error.type", string(apierr.Internal)); !slices.Contains(spans[0].Attributes, want) {
		t.Error("the span does not say what kind of error it was")
	}
}

func TestRequestsThatWaitAreMeasuredWhileTheRunnerRuns(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	m, err := New(nil, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	stop, err := m.Waiting(func(context.Context) (int64, error) { return 7, nil })
	if err != nil {
		t.Fatal(err)
	}
	measured := func() []int64 {
		var data metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &data); err != nil {
			t.Fatal(err)
		}
		var values []int64
		for _, scope := range data.ScopeMetrics {
			for _, one := range scope.Metrics {
				for _, point := range one.Data.(metricdata.Gauge[int64]).DataPoints {
					values = append(values, point.Value)
				}
			}
		}
		return values
	}
	if got := measured(); !slices.Equal(got, []int64{7}) {
		t.Errorf("got %v, want 7", got)
	}
	stop()
	if got := measured(); len(got) > 0 {
		t.Errorf("got %v after the end", got)
	}
}
