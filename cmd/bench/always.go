package main

import (
	"context"

	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
	"github.com/agentbus/agentbus/cmd/bench/internal/stack"
)

// always compares a broker that syncs each message to the disk with one that syncs every two minutes.
type always struct {
	synced, relaxed []float64 // events per second
	frames          []float64 // events per frame, synced
}

// alwaysPart is the share of the events that this experiment sends, because syncing is slow.
const alwaysPart = 4

func (x *always) round(ctx context.Context, l *environment) error {
	deltas := max(l.options.events/alwaysPart, 1)
	relaxed, err := l.saturate(ctx, l.stack, deltas)
	if err != nil {
		return err
	}
	s, err := l.newStack(ctx, stack.Options{Slots: 2 * l.options.streams, SyncAlways: true})
	if err != nil {
		return err
	}
	defer s.Stop()
	synced, err := l.saturate(ctx, s, deltas)
	if err != nil {
		return err
	}
	x.relaxed = append(x.relaxed, relaxed.rate)
	x.synced = append(x.synced, synced.rate)
	x.frames = append(x.frames, synced.frame)
	return nil
}

func (x *always) report(r *report) {
	synced, relaxed := figure.Median(x.synced), figure.Median(x.relaxed)
	table := figure.Table{Head: []string{"sync_interval of NATS", "events/s"}}
	table.Add("always", figure.Number(synced))
	table.Add("2m, the default", figure.Number(relaxed))
	r.section("Synced to disk", table, "With always a frame held "+figure.Number(figure.Median(x.frames))+" events (mean).")
	r.goal(goal{"P9", "events/s with always over the default", synced / relaxed, 0.5, "", atLeast})
}
