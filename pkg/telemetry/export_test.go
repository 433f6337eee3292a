package telemetry

import "go.opentelemetry.io/otel/trace"

// Tracer returns a tracer of t.
func Tracer(t *Telemetry) trace.Tracer { return t.tracers.Tracer("test") }
