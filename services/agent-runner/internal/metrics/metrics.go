// Package metrics watches an agent-runner: spans and metrics of agents and models, after the semantic conventions for
// generative AI. It sees names, counts and times, never contents.
package metrics

import (
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/agentbus/agentbus/services/agent-runner"

// Meters are the instruments of a runner. They are safe for concurrent use.
type Meters struct {
	tracer   trace.Tracer
	meter    metric.Meter
	duration metric.Float64Histogram
	tokens   metric.Int64Histogram
	first    metric.Float64Histogram
	length   metric.Int64Histogram
	runs     metric.Int64Counter
	inFlight metric.Int64UpDownCounter
	reaped   metric.Int64Counter
}

// New makes the instruments with providers; nil stands for the global one.
func New(tracers trace.TracerProvider, meters metric.MeterProvider) (*Meters, error) {
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	meter := meters.Meter(scope)
	m := &Meters{tracer: tracers.Tracer(scope), meter: meter}
	var errs [7]error
	m.duration, errs[0] = meter.Float64Histogram(telemetry.GenAIOperationDuration, metric.WithUnit("s"),
		metric.WithDescription("Time of one turn of a model."),
		metric.WithExplicitBucketBoundaries(telemetry.GenAIDurationBuckets()...))
	m.tokens, errs[1] = meter.Int64Histogram(telemetry.GenAITokenUsage, metric.WithUnit("{token}"),
		metric.WithDescription("Tokens of one turn of a model."),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864))
	m.first, errs[2] = meter.Float64Histogram(telemetry.GenAITimeToFirstChunk, metric.WithUnit("s"),
		metric.WithDescription("Time until a model's first output."),
		metric.WithExplicitBucketBoundaries(.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10))
	m.runs, errs[3] = meter.Int64Counter("agentbus.runs",
		metric.WithDescription("Requests that left a runner, by how: done, error, aborted, fenced, handed_over, left. "+
			"With error, error.type is its code."))
	m.inFlight, errs[4] = meter.Int64UpDownCounter("agentbus.runs.in.flight",
		metric.WithDescription("Requests that a runner works on."))
	m.reaped, errs[5] = meter.Int64Counter("agentbus.reaped",
		metric.WithDescription("What the reaper did about requests without a runner: aborted, timed_out, pointed, failed."))
	m.length, errs[6] = meter.Int64Histogram("agentbus.response.length", metric.WithUnit("{character}"),
		metric.WithDescription("Length of the text of one turn of a model, if it has text."),
		metric.WithExplicitBucketBoundaries(10, 100, 500, 1000, 5000, 10_000, 50_000, 100_000))
	return m, errors.Join(errs[:]...)
}

// Waiting measures, whenever metrics are read, how many requests wait for a runner: the metric for scaling runners.
// Each runner reports the same number, that of the shared queue. stop ends it.
func (m *Meters) Waiting(look func(context.Context) (int64, error)) (stop func(), err error) {
	gauge, err := m.meter.Int64ObservableGauge("agentbus.requests.waiting",
		metric.WithDescription("Requests in the queue of all runners, and in the backlogs of tenants, that no runner has taken yet."))
	if err != nil {
		return nil, err
	}
	registration, err := m.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		waiting, err := look(ctx)
		if err == nil {
			o.ObserveInt64(gauge, waiting)
		}
		return err
	}, gauge)
	if err != nil {
		return nil, err
	}
	return func() { _ = registration.Unregister() }, nil // it never fails
}

// Request names a request for its span.
type Request struct {
	Tenant, Agent, ThreadID, RequestID string
}

// Invoke opens the span of a request. Call end with how it left the runner, the code of the error event that it
// ended with, and the error that the runner met, if there are such.
func (m *Meters) Invoke(ctx context.Context, r Request) (_ context.Context, end func(status string, failure apierr.Code, err error)) {
	agent := telemetry.GenAIAgentName.String(r.Agent)
	//nolint:spancheck // the caller's end ends it
	ctx, span := m.tracer.Start(ctx, telemetry.OperationInvokeAgent+" "+r.Agent, trace.WithAttributes(
		telemetry.GenAIOperationName.String(telemetry.OperationInvokeAgent), agent,
		telemetry.GenAIConversationID.String(r.ThreadID),
		telemetry.RequestID.String(r.RequestID), telemetry.TenantID.String(r.Tenant),
	))
	m.inFlight.Add(ctx, 1)
	return ctx, func(status string, failure apierr.Code, err error) { //nolint:spancheck // this is end
		m.inFlight.Add(ctx, -1)
		labels := []attribute.KeyValue{attribute.String("agent", r.Agent), attribute.String("status", status)}
		if failure != "" {
			labels = append(labels, telemetry.ErrorType.String(string(failure)))
		}
		m.runs.Add(ctx, 1, metric.WithAttributes(labels...))
		fail(span, err)
		span.End()
	}
}

// Reaped counts something that the reaper did.
func (m *Meters) Reaped(ctx context.Context, what string) {
	m.reaped.Add(ctx, 1, metric.WithAttributes(attribute.String("what", what)))
}

// fail marks a span as failed. The text of an API error was written for clients; other errors may contain anything, so
// only their kind is recorded.
func fail(span trace.Span, err error) {
	if err == nil {
		return
	}
	f := apierr.From(err)
	span.SetAttributes(telemetry.ErrorType.String(string(f.Code)))
	span.SetStatus(codes.Error, f.Message)
}
