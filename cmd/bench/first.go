package main

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
)

// first measures the time until an answer starts on an idle stack: one request after another.
type first struct {
	event, delta percentiles
}

const firstRequests = 200

func (x *first) round(ctx context.Context, l *environment) error {
	var toEvent, toDelta []time.Duration
	for range firstRequests {
		result, err := l.client.Read(ctx, prompt(l.stack.URL, "/say hello"))
		if err != nil {
			return err
		}
		l.checked.Add(int64(result.Events))
		toEvent = append(toEvent, result.FirstEvent)
		toDelta = append(toDelta, result.FirstDelta)
	}
	x.event.add(toEvent)
	x.delta.add(toDelta)
	return l.stack.Quiet(ctx)
}

func (x *first) report(r *report) {
	table := figure.Table{Head: []string{"one request after another, from POST to", "p50 ms", "p99 ms"}}
	table.Add("first event", figure.Number(figure.Median(x.event.p50)), figure.Number(figure.Median(x.event.p99)))
	table.Add("first delta of text", figure.Number(figure.Median(x.delta.p50)), figure.Number(figure.Median(x.delta.p99)))
	r.section("First event", table, "")
	r.goal(goal{"P4", "POST to first event, p50", figure.Median(x.event.p50), 3, "ms", atMost})
	r.goal(goal{"P4", "POST to first delta, p50", figure.Median(x.delta.p50), 5, "ms", atMost})
}
