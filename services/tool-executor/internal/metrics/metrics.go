// Package metrics has the spans and metrics of tool calls. They contain ids and names only, never arguments or results.
package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/agentbus/agentbus/services/tool-executor"

// Instruments count and time calls. They are safe for concurrent use.
type Instruments struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram
	calls    metric.Int64Counter
	late     metric.Int64Counter
}

// New makes the instruments with OpenTelemetry's global providers.
func New() (*Instruments, error) {
	meter := otel.Meter(scope)
	i := &Instruments{tracer: otel.Tracer(scope)}
	var errs [3]error
	i.duration, errs[0] = meter.Float64Histogram(telemetry.GenAIExecuteToolDuration, metric.WithUnit("s"),
		metric.WithDescription("How long calls of tools took."),
		metric.WithExplicitBucketBoundaries(telemetry.GenAIDurationBuckets()...))
	i.calls, errs[1] = meter.Int64Counter("agentbus.tool.calls",
		metric.WithDescription("Calls of tools by how they ended, refused ones too."))
	i.late, errs[2] = meter.Int64Counter("agentbus.tool.results.dropped",
		metric.WithDescription("Results that came second: another executor had written one."))
	return i, errors.Join(errs[:]...)
}

// Call is one call under observation. End it once.
type Call struct {
	instruments *Instruments
	span        trace.Span
	tool        string
	begun       time.Time
}

// Start opens the span of a call. known reports whether the tool exists: a name that a model made up does not become a
// label.
func (i *Instruments) Start(ctx context.Context, c record.ToolCall, known bool) (context.Context, *Call) {
	name := c.Tool
	if !known {
		name = "_unknown"
	}
	ctx, span := i.tracer.Start(ctx, telemetry.OperationExecuteTool+" "+name, trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(
			telemetry.GenAIOperationName.String(telemetry.OperationExecuteTool),
			telemetry.GenAIToolName.String(name),
			telemetry.GenAIToolCallID.String(c.ToolCallID),
			telemetry.GenAIToolType.String("function"),
			telemetry.GenAIConversationID.String(c.ThreadID),
			telemetry.RequestID.String(c.RequestID),
			telemetry.TenantID.String(c.Tenant),
		))
	return ctx, &Call{instruments: i, span: span, tool: name, begun: time.Now()}
}

// Elapsed is the time since Start.
func (c *Call) Elapsed() time.Duration { return time.Since(c.begun) }

// Asked is the status of a call that has not ended but asks the user.
const Asked event.ToolStatus = "asked"

// End records how the call ended. stored is false when another result had been stored before.
func (c *Call) End(ctx context.Context, status event.ToolStatus, stored bool) {
	defer c.span.End()
	labels := metric.WithAttributes(attribute.String("tool", c.tool), attribute.String("status", string(status)))
	c.instruments.calls.Add(ctx, 1, labels)
	names := []attribute.KeyValue{
		telemetry.GenAIOperationName.String(telemetry.OperationExecuteTool), telemetry.GenAIToolName.String(c.tool),
	}
	if status != event.ToolSuccess && status != Asked {
		names = append(names, telemetry.ErrorType.String(string(apierr.ToolError)))
	}
	c.instruments.duration.Record(ctx, c.Elapsed().Seconds(), metric.WithAttributes(names...))
	if !stored {
		c.instruments.late.Add(ctx, 1, metric.WithAttributes(attribute.String("tool", c.tool)))
	}
	c.span.SetAttributes(telemetry.ToolStatus.String(string(status)))
	if status != event.ToolSuccess && status != Asked {
		c.span.SetAttributes(telemetry.ErrorType.String(string(apierr.ToolError)))
		c.span.SetStatus(codes.Error, string(status))
	}
}

// Fail records that the call got no result, for a reason outside the tool; it will be retried.
func (c *Call) Fail(err error) {
	c.span.RecordError(err)
	c.span.SetStatus(codes.Error, "no result")
	c.span.End()
}
