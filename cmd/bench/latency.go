package main

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
	"github.com/agentbus/agentbus/cmd/bench/internal/load"
)

// latency streams at a rate that leaves processor time to spare, and measures the latency of each delta: from the time
// that its writer puts into it to its arrival at the client.
type latency struct {
	bus, bare percentiles
}

// percentiles holds figures of each round, in milliseconds.
type percentiles struct{ p50, p99, p999 []float64 }

func (p *percentiles) add(samples []time.Duration) {
	p.p50 = append(p.p50, figure.Milliseconds(figure.Percentile(samples, 0.50)))
	p.p99 = append(p.p99, figure.Milliseconds(figure.Percentile(samples, 0.99)))
	p.p999 = append(p.p999, figure.Milliseconds(figure.Percentile(samples, 0.999)))
}

const (
	paceTotal  = 2000 // events per second, all streams together
	paceTime   = 8 * time.Second
	paceSettle = time.Second // earlier latencies do not count, because streams are being opened
)

func (x *latency) round(ctx context.Context, l *environment) error {
	bus := func() error {
		rate, deltas := pace(l.options.streams)
		return x.measure(ctx, l, &x.bus, streamOf(l.stack.URL, deltas, rate, l.delta))
	}
	yard := func() error {
		rate, deltas := pace(l.options.streams)
		return x.measure(ctx, l, &x.bare, l.bareStream(deltas, rate))
	}
	steps := []func() error{yard, bus}
	if l.turn%2 == 1 {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return l.stack.Quiet(ctx)
}

// pace returns the rate of each stream and its number of deltas.
func pace(streams int) (rate float64, deltas int) {
	rate = paceTotal / float64(streams)
	return rate, max(int(rate*paceTime.Seconds()), 1)
}

// measure opens the streams one after another over the time of one delta, so that their deltas do not arrive all at
// once.
func (x *latency) measure(ctx context.Context, l *environment, into *percentiles, r load.Request) error {
	r.Latest, r.Settle = true, paceSettle
	results, _, err := l.all(ctx, l.options.streams, time.Second/paceTotal, r)
	if err != nil {
		return err
	}
	into.add(latencies(results))
	return nil
}

func (x *latency) report(r *report) {
	table := figure.Table{Head: []string{"2,000 events/s, from writer to client", "p50 ms", "p99 ms", "p99.9 ms"}}
	row := func(name string, p percentiles) {
		table.Add(name, figure.Number(figure.Median(p.p50)), figure.Number(figure.Median(p.p99)), figure.Number(figure.Median(p.p999)))
	}
	row("agentbus", x.bus)
	row("bare", x.bare)
	added := percentiles{minus(x.bus.p50, x.bare.p50), minus(x.bus.p99, x.bare.p99), minus(x.bus.p999, x.bare.p999)}
	row("added", added)
	r.section("Latency", table, "")
	r.goal(goal{"P3", "latency added over bare, p50", figure.Median(added.p50), 0.3, "ms", atMost})
	r.goal(goal{"P3", "latency added over bare, p99", figure.Median(added.p99), 1, "ms", atMost})
}

// minus subtracts the values of each round.
func minus(a, b []float64) []float64 {
	difference := make([]float64, len(a))
	for i := range a {
		difference[i] = a[i] - b[i]
	}
	return difference
}
