package broker

import (
	"context"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

// carrier lets trace context travel in message headers. NATS headers keep their case, so keys stay as they come.
type carrier nats.Header

func (c carrier) Get(key string) string { return nats.Header(c).Get(key) }
func (c carrier) Set(key, value string) { nats.Header(c).Set(key, value) }
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}

// Inject adds the trace of ctx to h.
func Inject(ctx context.Context, h nats.Header) { otel.GetTextMapPropagator().Inject(ctx, carrier(h)) }

// Extract returns ctx with the trace that h carries.
func Extract(ctx context.Context, h nats.Header) context.Context {
	return otel.GetTextMapPropagator().Extract(ctx, carrier(h))
}

// TraceOf names the trace of ctx; "" = it has none.
func TraceOf(ctx context.Context) string {
	if traced := trace.SpanContextFromContext(ctx); traced.HasTraceID() {
		return traced.TraceID().String()
	}
	return ""
}
