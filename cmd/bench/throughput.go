package main

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
	"github.com/agentbus/agentbus/cmd/bench/internal/load"
	"github.com/agentbus/agentbus/cmd/bench/internal/publish"
	"github.com/agentbus/agentbus/cmd/bench/internal/stack"
)

// throughput has all streams go as fast as they can: from the runner over the log on disk to the HTTP client, beside the
// same bytes from the bare server, and beside what JetStream stores when that is all it does.
type throughput struct {
	bus, bare  []float64            // events a second
	cpu        map[string][]float64 // seconds for a million events, by process
	bareCPU    []float64
	frames     []float64 // events in a frame
	raw, raw16 []float64 // events a second, in messages of 1 and of 16
}

// costly are the processes whose processor time is told.
var costly = []string{stack.Gateway, stack.Runner, stack.NATS, stack.History}

// serving are those that P6 counts.
var serving = []string{stack.Gateway, stack.Runner, stack.NATS}

const (
	rawWindow = 512
	rawFrame  = 16
	rawMost   = 200_000 // events in a measurement
)

func (t *throughput) round(ctx context.Context, l *lab) error {
	steps := []func(context.Context, *lab) error{t.measureBare, t.measureBus}
	if l.turn%2 == 1 {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, step := range append(steps, t.measureRaw) {
		if err := step(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (t *throughput) measureBare(ctx context.Context, l *lab) error {
	before, err := l.bare.CPU()
	if err != nil {
		return err
	}
	results, took, err := l.all(ctx, l.options.streams, 0, l.bareStream(l.options.events, 0))
	if err != nil {
		return err
	}
	after, err := l.bare.CPU()
	if err != nil {
		return err
	}
	n := events(results)
	t.bare = append(t.bare, float64(n)/took.Seconds())
	t.bareCPU = append(t.bareCPU, perMillion(after-before, n))
	return nil
}

func (t *throughput) measureBus(ctx context.Context, l *lab) error {
	m, err := l.race(ctx, l.stack, l.options.events)
	if err != nil {
		return err
	}
	if t.cpu == nil {
		t.cpu = map[string][]float64{}
	}
	for name, used := range m.used {
		t.cpu[name] = append(t.cpu[name], perMillion(used, m.events))
	}
	t.bus = append(t.bus, m.rate)
	t.frames = append(t.frames, m.frame)
	return nil
}

// outcome is what a race of all streams gave.
type outcome struct {
	events int
	rate   float64 // events a second
	frame  float64 // events in a frame
	used   stack.Usage
}

// race has all streams of a stack go as fast as they can, and waits until the stack is quiet again.
func (l *lab) race(ctx context.Context, s *stack.Stack, deltas int) (outcome, error) {
	framesBefore, err := l.frames(ctx, s)
	if err != nil {
		return outcome{}, err
	}
	before, err := s.CPU()
	if err != nil {
		return outcome{}, err
	}
	results, took, err := l.all(ctx, l.options.streams, 0, streamOf(s.URL, deltas, 0, l.delta))
	if err != nil {
		return outcome{}, err
	}
	if err := s.Quiet(ctx); err != nil {
		return outcome{}, err
	}
	after, err := s.CPU()
	if err != nil {
		return outcome{}, err
	}
	framesAfter, err := l.frames(ctx, s)
	n := events(results)
	return outcome{
		events: n, rate: float64(n) / took.Seconds(), frame: float64(n) / float64(framesAfter-framesBefore), used: after.Sub(before),
	}, err
}

// frames is how many frames the stack has stored.
func (l *lab) frames(ctx context.Context, s *stack.Stack) (int, error) {
	conn, err := publish.Dial(ctx, s.NATSAddr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.Messages("AGENTBUS_EVENTS", "agentbus.event.>")
}

func (t *throughput) measureRaw(ctx context.Context, l *lab) error {
	conn, err := publish.Dial(ctx, l.stack.NATSAddr)
	if err != nil {
		return err
	}
	defer conn.Close()
	total := min(l.options.streams*l.options.events, rawMost)
	single := publish.Load{Stream: "BENCH", Subjects: l.options.streams, Messages: total, Size: l.size, Window: rawWindow}
	took, err := conn.Run(single)
	if err != nil {
		return err
	}
	t.raw = append(t.raw, float64(total)/took.Seconds())
	frames := single
	frames.Messages, frames.Size = max(total/rawFrame, 1), rawFrame*l.size
	if took, err = conn.Run(frames); err != nil {
		return err
	}
	t.raw16 = append(t.raw16, float64(frames.Messages*rawFrame)/took.Seconds())
	return l.stack.Quiet(ctx)
}

func (t *throughput) report(r *report) {
	bus, yard := figure.Median(t.bus), figure.Median(t.bare)
	table := figure.Table{Head: []string{"as fast as it goes", "events/s", "over bare"}}
	table.Add("agentbus: runner, log on disk, HTTP client", figure.Number(bus), figure.Number(bus/yard))
	table.Add("bare net/http, a flush an event", figure.Number(yard), "1")
	table.Add("JetStream alone, an event a message", figure.Number(figure.Median(t.raw)), figure.Number(figure.Median(t.raw)/yard))
	table.Add("JetStream alone, 16 events a message", figure.Number(figure.Median(t.raw16)), figure.Number(figure.Median(t.raw16)/yard))
	r.section("Throughput", table, "A frame of the log held "+figure.Number(figure.Median(t.frames))+" events (mean).")

	costs := figure.Table{Head: []string{"processor", "s per million events"}}
	sum := 0.0
	for _, name := range costly {
		costs.Add(name, figure.Number(figure.Median(t.cpu[name])))
	}
	for _, name := range serving {
		sum += figure.Median(t.cpu[name])
	}
	yardCost := figure.Median(t.bareCPU)
	costs.Add("gateway, agent-runner and nats", figure.Number(sum))
	costs.Add("bare", figure.Number(yardCost))
	r.section("Processor time", costs, "")

	r.goal(goal{"P1", "events/s over bare", bus / yard, 0.9, "", atLeast})
	r.goal(goal{"P6", "processor time of gateway, runner and NATS over bare (Centrifugo alone: 2.0)", sum / yardCost, 2, "", atMost})
}

func perMillion(used time.Duration, events int) float64 {
	return used.Seconds() / float64(events) * 1e6
}

// latencies gathers those of all results.
func latencies(results []load.Result) []time.Duration {
	var all []time.Duration
	for _, r := range results {
		all = append(all, r.Latencies...)
	}
	return all
}
