package metrics_test

import (
	"context"
	"testing"
	"time"

	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestInstruments(t *testing.T) {
	t.Parallel()
	reader := metric.NewManualReader()
	i, err := metrics.New(metric.NewMeterProvider(metric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	i.Answered(ctx, "GET /v1/agents", 200)
	i.Answered(ctx, "GET /v1/agents", 200)
	i.Answered(ctx, "GET /v1/agents", 404)
	i.Opened(ctx)
	i.Opened(ctx)
	i.Sent(ctx, 3)
	i.Sent(ctx, 4)
	i.First(ctx, 1500*time.Millisecond)
	i.Replayed(ctx)
	i.Replayed(ctx)
	cancel()
	i.Closed(ctx) // a stream often ends because its client has left
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	sums, points := map[string]float64{}, map[string]int{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					sums[m.Name] += float64(p.Value)
					points[m.Name]++
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					sums[m.Name] += p.Sum
					points[m.Name]++
				}
			}
		}
	}
	for name, want := range map[string]struct {
		sum    float64
		points int // of different attributes
	}{
		"agentbus.gateway.requests": {3, 2}, "agentbus.gateway.streams": {1, 1}, "agentbus.gateway.events": {7, 1},
		"agentbus.gateway.first.event": {1.5, 1}, "agentbus.gateway.replays": {2, 1},
	} {
		if sums[name] != want.sum || points[name] != want.points {
			t.Errorf("%s: got the sum %v of %d points, want %v of %d", name, sums[name], points[name], want.sum, want.points)
		}
	}
}
