// Package metrics owns the names of the gateway's metrics.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Instruments are the gateway's metrics. They are safe for concurrent use.
type Instruments struct {
	requests  metric.Int64Counter
	streams   metric.Int64UpDownCounter
	events    metric.Int64Counter
	first     metric.Float64Histogram
	replays   metric.Int64Counter
	delivered metric.Int64Counter
}

// New creates the instruments with provider. Prometheus shows them with underscores, and adds the suffix _total to
// counters.
func New(provider metric.MeterProvider) (*Instruments, error) {
	meter := provider.Meter("github.com/agentbus/agentbus/services/gateway")
	var i Instruments
	var errs [6]error
	i.requests, errs[0] = meter.Int64Counter("agentbus.gateway.requests",
		metric.WithDescription("HTTP requests, by route and status"))
	i.streams, errs[1] = meter.Int64UpDownCounter("agentbus.gateway.streams",
		metric.WithDescription("open event streams"))
	i.events, errs[2] = meter.Int64Counter("agentbus.gateway.events",
		metric.WithDescription("events read for clients, those included that a client did not ask for"))
	i.first, errs[3] = meter.Float64Histogram("agentbus.gateway.first.event", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60),
		metric.WithDescription("from the opening of a stream to its first event"))
	i.replays, errs[4] = meter.Int64Counter("agentbus.gateway.replays",
		metric.WithDescription("streams served from history, because the stream of the bus has forgotten them"))
	i.delivered, errs[5] = meter.Int64Counter("agentbus.gateway.deliveries",
		metric.WithDescription("attempts to deliver to a webhook, by outcome: accepted, retried, dropped"))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return &i, nil
}

// Answered counts an HTTP request.
func (i *Instruments) Answered(ctx context.Context, route string, status int) {
	i.requests.Add(ctx, 1, metric.WithAttributes(attribute.String("route", route), attribute.Int("status", status)))
}

// Opened counts a stream until Closed is called.
func (i *Instruments) Opened(ctx context.Context) { i.streams.Add(ctx, 1) }

// Closed counts the end of a stream. ctx may be done.
func (i *Instruments) Closed(ctx context.Context) { i.streams.Add(context.WithoutCancel(ctx), -1) }

// Sent counts events.
func (i *Instruments) Sent(ctx context.Context, events int) { i.events.Add(ctx, int64(events)) }

// First records the time until a client's first event.
func (i *Instruments) First(ctx context.Context, wait time.Duration) {
	i.first.Record(ctx, wait.Seconds())
}

// Replayed counts a stream that is served from history.
func (i *Instruments) Replayed(ctx context.Context) { i.replays.Add(ctx, 1) }

// Delivered counts an attempt to deliver to a webhook.
func (i *Instruments) Delivered(ctx context.Context, outcome string) {
	i.delivered.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}
