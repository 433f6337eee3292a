package metrics_test

import (
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/metrics"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestEnded(t *testing.T) { // not parallel: it sets the provider of the process
	reader := metric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	i, err := metrics.New()
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	task := remoteagent.Task{Status: remoteagent.Completed, CreatedAt: begun, CompletedAt: begun.Add(90 * time.Second), TurnsCompleted: 3, CostUSD: 0.25}
	i.Ended(t.Context(), "scripted", task)
	i.Ended(t.Context(), "scripted", task)
	task.Status = remoteagent.Cancelled
	i.Ended(t.Context(), "scripted", task)
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	add := func(name string, by attribute.Set, value float64) {
		status, _ := by.Value("status")
		sums[name+" "+status.AsString()] += value
	}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Sum)
				}
			}
		}
	}
	for name, want := range map[string]float64{
		"agentbus.task.duration completed": 180, "agentbus.task.duration cancelled": 90,
		"agentbus.task.turns completed": 6, "agentbus.task.turns cancelled": 3,
		"agentbus.task.cost completed": 0.5, "agentbus.task.cost cancelled": 0.25,
	} {
		if sums[name] != want {
			t.Errorf("%s: got %v, want %v", name, sums[name], want)
		}
	}
}
