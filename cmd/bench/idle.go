package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
	"github.com/agentbus/agentbus/cmd/bench/internal/load"
	"github.com/agentbus/agentbus/cmd/bench/internal/stack"
	"github.com/agentbus/agentbus/internal/testcluster"
)

// idle opens many streams of a run that sleeps, on a fresh stack. It measures the memory of each stream, and the cost
// of an event on a few active streams meanwhile.
type idle struct {
	open                  int
	gateway, nats, runner []float64 // bytes per stream
	bare                  []float64
	alone, among          []float64 // processor seconds per million events
}

const (
	warmRequests  = 50
	activeStreams = 100
	activeRate    = 20 // events per second of each stream
	activeDeltas  = 100
)

func (x *idle) round(ctx context.Context, l *environment) error {
	x.open = l.options.idle
	if err := x.measureBus(ctx, l); err != nil {
		return err
	}
	return x.measureBare(ctx, l)
}

func (x *idle) measureBus(ctx context.Context, l *environment) (err error) {
	s, err := l.newStack(ctx, stack.Options{Slots: l.options.idle + 2*activeStreams})
	if err != nil {
		return err
	}
	defer s.Stop()
	if _, _, err := l.all(ctx, warmRequests, time.Millisecond, prompt(s.URL, "/say hello")); err != nil {
		return err
	}
	alone, err := x.cost(ctx, l, s)
	if err != nil {
		return err
	}
	before, err := memory(s)
	if err != nil {
		return err
	}
	leave, err := l.hold(ctx, l.options.idle, prompt(s.URL, "/sleep 30m"))
	if err != nil {
		return err
	}
	if err := s.Quiet(ctx); err != nil {
		return err
	}
	after, err := memory(s)
	if err != nil {
		return err
	}
	among, err := x.cost(ctx, l, s)
	if err != nil {
		return err
	}
	for name, into := range map[testcluster.Kind]*[]float64{stack.Gateway: &x.gateway, stack.NATS: &x.nats, stack.Runner: &x.runner} {
		*into = append(*into, float64(after[name]-before[name])/float64(l.options.idle))
	}
	x.alone, x.among = append(x.alone, alone), append(x.among, among)
	return leave()
}

// memory returns the memory of the processes of a stack.
func memory(s *stack.Stack) (map[testcluster.Kind]int64, error) {
	held := map[testcluster.Kind]int64{}
	for _, name := range serving {
		rss, err := s.RSS(name)
		if err != nil {
			return nil, fmt.Errorf("memory of %s: %w", name, err)
		}
		held[name] = rss
	}
	return held, nil
}

// cost returns the processor time of the serving processes for a million events on a few streams at a low rate.
func (x *idle) cost(ctx context.Context, l *environment, s *stack.Stack) (float64, error) {
	before, err := s.CPU()
	if err != nil {
		return 0, err
	}
	results, _, err := l.all(ctx, activeStreams, time.Second/activeRate/activeStreams, streamOf(s.URL, activeDeltas, activeRate, l.delta))
	if err != nil {
		return 0, err
	}
	if err := s.Quiet(ctx); err != nil {
		return 0, err
	}
	after, err := s.CPU()
	if err != nil {
		return 0, err
	}
	return perMillion(after.Sub(before).Sum(serving...), events(results)), nil
}

func (x *idle) measureBare(ctx context.Context, l *environment) error {
	y, err := l.newBare(ctx)
	if err != nil {
		return err
	}
	defer y.Kill()
	before, err := y.RSS()
	if err != nil {
		return err
	}
	leave, err := l.hold(ctx, l.options.idle, load.Request{Method: http.MethodGet, URL: y.URL + "/idle"})
	if err != nil {
		return err
	}
	after, err := y.RSS()
	if err != nil {
		return err
	}
	x.bare = append(x.bare, float64(after-before)/float64(l.options.idle))
	return leave()
}

func (x *idle) report(r *report) {
	const kilo = 1000
	gateway, nats, yard := figure.Median(x.gateway), figure.Median(x.nats), figure.Median(x.bare)
	table := figure.Table{Head: []string{fmt.Sprintf("%d idle streams", x.open), "kB a stream", "over bare"}}
	table.Add("gateway", figure.Number(gateway/kilo), figure.Number(gateway/yard))
	table.Add("nats", figure.Number(nats/kilo), figure.Number(nats/yard))
	table.Add("gateway and nats", figure.Number((gateway+nats)/kilo), figure.Number((gateway+nats)/yard))
	table.Add("agent-runner, whose run sleeps", figure.Number(figure.Median(x.runner)/kilo), "")
	table.Add("bare", figure.Number(yard/kilo), "1")
	r.section("Memory", table, "")

	alone, among := figure.Median(x.alone), figure.Median(x.among)
	cost := figure.Table{Head: []string{"100 streams of 20 events/s", "s per million events"}}
	cost.Add("alone", figure.Number(alone))
	cost.Add(fmt.Sprintf("among %d idle ones", x.open), figure.Number(among))
	r.section("Cost among many", cost, "")

	r.goal(goal{"P5", "memory of an idle stream over bare", (gateway + nats) / yard, 1.2, "", atMost})
	r.goal(goal{"P8", fmt.Sprintf("cost of an event among %d idle requests over that without", x.open), among / alone, 1.2, "", atMost})
}
