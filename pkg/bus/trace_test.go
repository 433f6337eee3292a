package bus_test

import (
	"context"
	"testing"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"go.opentelemetry.io/otel/trace"
)

func TestAClaimNamesItsTrace(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceID, err := trace.TraceIDFromHex(id)
	if err != nil {
		t.Fatal(err)
	}
	traced := trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: trace.SpanID{1}})
	for want, ctx := range map[string]context.Context{id: trace.ContextWithSpanContext(t.Context(), traced), "": t.Context()} {
		log := bus.LogID{Tenant: "t", RequestID: "req_traced" + want}
		w, _, err := b.Claim(ctx, log, "runner", "build")
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		frame, err := b.Last(t.Context(), log)
		if err != nil {
			t.Fatal(err)
		}
		events, err := frame.Events()
		if err != nil {
			t.Fatal(err)
		}
		if claim, ok := events[0].Body.(event.Claim); !ok || claim.TraceID != want {
			t.Errorf("got %+v, want the trace %q", events[0].Body, want)
		}
	}
}
