package projector

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/services/history/internal/store"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// metrics are what an operator watches: agentbus_history_events_total, agentbus_history_batch_duration_seconds, and
// agentbus_history_lag_seconds, the age of the newest entry when it was stored.
type metrics struct {
	events   metric.Int64Counter
	duration metric.Float64Histogram
	lag      metric.Float64Gauge
}

func newMetrics() (m metrics, err error) {
	meter := otel.Meter("github.com/agentbus/agentbus/services/history")
	if m.events, err = meter.Int64Counter("agentbus.history.events",
		metric.WithDescription("events stored for the first time")); err != nil {
		return m, err
	}
	if m.duration, err = meter.Float64Histogram("agentbus.history.batch.duration", metric.WithUnit("s"),
		metric.WithDescription("time to store a batch")); err != nil {
		return m, err
	}
	m.lag, err = meter.Float64Gauge("agentbus.history.lag", metric.WithUnit("s"),
		metric.WithDescription("age of the newest entry when it was stored"))
	return m, err
}

func (m metrics) stored(ctx context.Context, took time.Duration, now time.Time, entries []store.Entry) {
	m.duration.Record(ctx, took.Seconds())
	var newest time.Time
	for _, e := range entries {
		if e.Time.After(newest) {
			newest = e.Time
		}
	}
	if !newest.IsZero() {
		m.lag.Record(ctx, max(0, now.Sub(newest).Seconds()))
	}
}
