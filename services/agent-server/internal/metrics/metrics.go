// Package metrics has the metrics of an agent-server's tasks.
package metrics

import (
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const scope = "github.com/agentbus/agentbus/services/agent-server"

// Instruments count tasks. They are safe for concurrent use.
type Instruments struct {
	duration metric.Float64Histogram
	turns    metric.Int64Counter
	cost     metric.Float64Counter
}

// New makes the instruments with OpenTelemetry's global provider.
func New() (*Instruments, error) {
	meter := otel.Meter(scope)
	i := &Instruments{}
	var errs [3]error
	i.duration, errs[0] = meter.Float64Histogram("agentbus.task.duration", metric.WithUnit("s"),
		metric.WithDescription("How long tasks took that have ended, by how they ended."),
		metric.WithExplicitBucketBoundaries(1, 3, 10, 30, 60, 180, 600, 1800, 3600, 7200))
	i.turns, errs[1] = meter.Int64Counter("agentbus.task.turns", metric.WithDescription("Turns of tasks that have ended."))
	i.cost, errs[2] = meter.Float64Counter("agentbus.task.cost", metric.WithUnit("USD"),
		metric.WithDescription("What tasks have cost that have ended."))
	return i, errors.Join(errs[:]...)
}

// Ended counts a task that has ended.
func (i *Instruments) Ended(ctx context.Context, backend string, task remoteagent.Task) {
	by := metric.WithAttributes(
		attribute.String("status", string(task.Status)), telemetry.GenAIProviderName.String(backend),
	)
	i.duration.Record(ctx, task.CompletedAt.Sub(task.CreatedAt).Seconds(), by)
	i.turns.Add(ctx, int64(task.TurnsCompleted), by)
	i.cost.Add(ctx, task.CostUSD, by)
}
