package main

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/bare"
	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
	"github.com/agentbus/agentbus/cmd/bench/internal/load"
	"github.com/agentbus/agentbus/cmd/bench/internal/process"
	"github.com/agentbus/agentbus/cmd/bench/internal/publish"
	"github.com/agentbus/agentbus/cmd/bench/internal/stack"
	"github.com/agentbus/agentbus/internal/testcluster"
	"golang.org/x/sync/errgroup"
)

// throughput streams as fast as possible from the runner through the log on disk to the HTTP client, compared with the
// same bytes from the bare server, and with the rate at which JetStream stores messages without other work.
//
// The bare server is measured twice: when it creates its events itself, and as a hub to which each event is posted,
// which is how other hubs were measured (see the peers below).
type throughput struct {
	bus, bare, hub  []float64                      // events per second
	cpu             map[testcluster.Kind][]float64 // seconds per million events, by process
	bareCPU, hubCPU []float64
	busClient       []float64 // of the benchmark, reading from agentbus
	bareClient      []float64 // of the benchmark, reading from the bare server
	frames          []float64 // events per frame
	raw, raw16      []float64 // events per second, in messages of 1 and of 16
}

// costly are the processes whose processor time is reported.
var costly = []testcluster.Kind{stack.Gateway, stack.Runner, stack.NATS, stack.History}

// serving are the processes that goal P6 counts.
var serving = []testcluster.Kind{stack.Gateway, stack.Runner, stack.NATS}

const (
	rawWindow = 512
	rawFrame  = 16
	rawMost   = 200_000 // events in a measurement
)

func (t *throughput) round(ctx context.Context, l *environment) error {
	steps := []func(context.Context, *environment) error{t.measureBare, t.measureBus, t.measureHub, t.measureRaw}
	if l.turn%2 == 1 {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (t *throughput) measureBare(ctx context.Context, l *environment) error {
	before, err := l.bare.CPU()
	if err != nil {
		return err
	}
	clientBefore, err := process.Self()
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
	clientAfter, err := process.Self()
	if err != nil {
		return err
	}
	n := events(results)
	t.bareClient = append(t.bareClient, perMillion(clientAfter-clientBefore, n))
	t.bare = append(t.bare, float64(n)/took.Seconds())
	t.bareCPU = append(t.bareCPU, perMillion(after-before, n))
	return nil
}

// hubPart is the share of the events for the hub, because each needs a POST.
const hubPart = 4

func (t *throughput) measureHub(ctx context.Context, l *environment) error {
	before, err := l.bare.CPU()
	if err != nil {
		return err
	}
	deltas := max(l.options.events/hubPart, 1)
	group, groupCtx := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range l.options.streams {
		topic := l.bare.URL + "/topics/" + strconv.Itoa(i)
		group.Go(func() error {
			result, err := l.client.Read(groupCtx, load.Request{Method: http.MethodGet, URL: topic, Deltas: deltas})
			l.checked.Add(int64(result.Events))
			return err
		})
		group.Go(func() error { return l.feed(groupCtx, topic, deltas) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took := time.Since(start)
	after, err := l.bare.CPU()
	if err != nil {
		return err
	}
	n := l.options.streams * (deltas + 1)
	t.hub = append(t.hub, float64(n)/took.Seconds())
	t.hubCPU = append(t.hubCPU, perMillion(after-before, n))
	return nil
}

// feed posts the deltas of a stream one after another, the terminal event, and the end.
func (l *environment) feed(ctx context.Context, topic string, deltas int) error {
	var event []byte
	for i := range deltas {
		event = bare.AppendEvent(event[:0], "text", i, l.size)
		if err := l.client.Post(ctx, topic, event); err != nil {
			return err
		}
	}
	if err := l.client.Post(ctx, topic, bare.AppendEvent(event[:0], "done", deltas, l.size)); err != nil {
		return err
	}
	return l.client.Post(ctx, topic, nil)
}

func (t *throughput) measureBus(ctx context.Context, l *environment) error {
	m, err := l.saturate(ctx, l.stack, l.options.events)
	if err != nil {
		return err
	}
	if t.cpu == nil {
		t.cpu = map[testcluster.Kind][]float64{}
	}
	for name, used := range m.used {
		t.cpu[name] = append(t.cpu[name], perMillion(used, m.events))
	}
	t.bus = append(t.bus, m.rate)
	t.busClient = append(t.busClient, perMillion(m.client, m.events))
	t.frames = append(t.frames, m.frame)
	return nil
}

// outcome is the result of one saturated run of all streams.
type outcome struct {
	events int
	rate   float64 // events a second
	frame  float64 // events per frame
	used   stack.Usage
	client time.Duration // of the benchmark itself
}

// saturate streams as fast as possible on all streams of a stack, and waits until the stack is quiet again.
func (l *environment) saturate(ctx context.Context, s *stack.Stack, deltas int) (outcome, error) {
	framesBefore, err := l.frames(ctx, s)
	if err != nil {
		return outcome{}, err
	}
	before, err := s.CPU()
	if err != nil {
		return outcome{}, err
	}
	clientBefore, err := process.Self()
	if err != nil {
		return outcome{}, err
	}
	results, took, err := l.all(ctx, l.options.streams, 0, streamOf(s.URL, deltas, 0, l.delta))
	if err != nil {
		return outcome{}, err
	}
	clientAfter, err := process.Self()
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
		events: n, rate: float64(n) / took.Seconds(), frame: float64(n) / float64(framesAfter-framesBefore),
		used: after.Sub(before), client: clientAfter - clientBefore,
	}, err
}

// frames returns the number of frames that the stack has stored.
func (l *environment) frames(ctx context.Context, s *stack.Stack) (int, error) {
	conn, err := publish.Dial(ctx, s.NATSAddr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.Messages("AGENTBUS_EVENTS", "agentbus.event.>")
}

func (t *throughput) measureRaw(ctx context.Context, l *environment) error {
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
	bus, yard, hub := figure.Median(t.bus), figure.Median(t.bare), figure.Median(t.hub)
	table := figure.Table{Head: []string{"as fast as it goes", "events/s", "over bare"}}
	row := func(name string, rate float64) { table.Add(name, figure.Number(rate), figure.Number(rate/yard)) }
	row("agentbus: runner, log on disk, HTTP client", bus)
	row("bare: makes its events, a flush each", yard)
	row("bare as a hub: a POST and a flush an event", hub)
	row("JetStream alone, an event a message", figure.Median(t.raw))
	row("JetStream alone, 16 events a message", figure.Median(t.raw16))
	r.section("Throughput", table, "A frame of the log held "+figure.Number(figure.Median(t.frames))+" events (mean).")

	costs := figure.Table{Head: []string{"processor", "s per million events"}}
	sum := 0.0
	for _, name := range costly {
		costs.Add(string(name), figure.Number(figure.Median(t.cpu[name])))
	}
	for _, name := range serving {
		sum += figure.Median(t.cpu[name])
	}
	hubCost := figure.Median(t.hubCPU)
	costs.Add("gateway, agent-runner and nats", figure.Number(sum))
	costs.Add("bare", figure.Number(figure.Median(t.bareCPU)))
	costs.Add("bare as a hub", figure.Number(hubCost))
	costs.Add("client of agentbus", figure.Number(figure.Median(t.busClient)))
	costs.Add("client of bare", figure.Number(figure.Median(t.bareClient)))
	r.section("Processor time", costs, "")

	r.goal(goal{"P1", "events/s over bare", bus / yard, 0.9, "", atLeast})
	r.goal(goal{"P2", "events/s over Centrifugo with memory history (0.65 of bare as a hub)", bus / (centrifugoRate * hub), 2, "", atLeast})
	r.goal(goal{"P2", "events/s over Mercure with bolt history (0.13 of bare as a hub)", bus / (mercureRate * hub), 10, "", atLeast})
	r.goal(goal{"P6", "processor time over Centrifugo's (2.0 of bare as a hub)", sum / (centrifugoCPU * hubCost), 1, "", atMost})
}

// The peers do not run here. Their rates compared with a bare hub were measured once, on one machine, in interleaved
// rounds: 200 streams, events of 250 bytes, one POST per event. Centrifugo v6.9.1 kept its history in memory, Mercure
// v1.0.0-alpha.3 on disk.
const (
	centrifugoRate = 24_392.0 / 37_431
	centrifugoCPU  = 42.0 / 21.0
	mercureRate    = 5_032.0 / 37_431
)

func perMillion(used time.Duration, events int) float64 {
	return used.Seconds() / float64(events) * 1e6
}

// latencies concatenates those of all results.
func latencies(results []load.Result) []time.Duration {
	var all []time.Duration
	for _, r := range results {
		all = append(all, r.Latencies...)
	}
	return all
}
