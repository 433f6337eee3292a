package metrics_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/tool-executor/internal/metrics"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// TestReportedEvents sets the global providers, so it is the one test of the package.
func TestReportedEvents(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	instruments, err := metrics.New()
	if err != nil {
		t.Fatal(err)
	}
	c := record.ToolCall{
		Tenant: "t", RequestID: "req_1", ThreadID: "thr_1", ToolCallID: "call_1", Tool: "clock", Args: json.RawMessage(`{"secret":1}`),
	}
	ctx, call := instruments.Start(t.Context(), c, true)
	call.End(ctx, event.ToolSuccess, true)
	c.Tool = "made-up-secret"
	ctx, call = instruments.Start(t.Context(), c, false)
	call.End(ctx, event.ToolFailed, false)
	_, call = instruments.Start(t.Context(), c, false)
	call.Fail(errors.New("the bus is away"))

	var told []string
	for _, s := range spans.Ended() {
		told = append(told, fmt.Sprintf("span %s %s %s %s", s.Name(), s.SpanKind(), s.Status().Code, text(s.Attributes())))
	}
	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &metrics); err != nil {
		t.Fatal(err)
	}
	for _, m := range metrics.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				told = append(told, fmt.Sprintf("%s %d %s", m.Name, p.Value, text(p.Attributes.ToSlice())))
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				told = append(told, fmt.Sprintf("%s in %s %d %s", m.Name, m.Unit, p.Count, text(p.Attributes.ToSlice())))
			}
		}
	}
	slices.Sort(told)
	const of = " gen_ai.tool.call.id=call_1 gen_ai.tool.type=function gen_ai.conversation.id=thr_1 agentbus.request.id=req_1 agentbus.tenant=t"
	want := []string{
		"agentbus.tool.calls 1 status=error tool=_unknown",
		"agentbus.tool.calls 1 status=success tool=clock",
		"agentbus.tool.results.dropped 1 tool=_unknown",
		"gen_ai.execute_tool.duration in s 1 error.type=tool_error gen_ai.operation.name=execute_tool gen_ai.tool.name=_unknown",
		"gen_ai.execute_tool.duration in s 1 gen_ai.operation.name=execute_tool gen_ai.tool.name=clock",
		"span execute_tool _unknown internal Error gen_ai.operation.name=execute_tool gen_ai.tool.name=_unknown" + of,
		"span execute_tool _unknown internal Error gen_ai.operation.name=execute_tool gen_ai.tool.name=_unknown" + of +
			" agentbus.tool.status=error error.type=tool_error",
		"span execute_tool clock internal Unset gen_ai.operation.name=execute_tool gen_ai.tool.name=clock" + of +
			" agentbus.tool.status=success",
	}
	if !slices.Equal(told, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}

func text(attributes []attribute.KeyValue) string {
	words := make([]string, len(attributes))
	for i, a := range attributes {
		words[i] = string(a.Key) + "=" + a.Value.String()
	}
	return strings.Join(words, " ")
}
