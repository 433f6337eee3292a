package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/cmd/chaos/internal/cluster"
	"github.com/agentbus/agentbus/cmd/chaos/internal/nemesis"
	"github.com/agentbus/agentbus/cmd/chaos/internal/observer"
	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/cmd/chaos/internal/workload"
	"github.com/agentbus/agentbus/internal/testcluster"
)

const (
	// ackWait is short, so that a worker which dies is missed soon.
	ackWait = 4 * time.Second
	// settleTimeout limits the time for scenarios and their requests to end after the last fault.
	settleTimeout = 90 * time.Second
)

// limits are what a run is held to: the numbers of docs/reliability.md. Deadline and Heartbeat are wider, for the machine
// may be slow: a promise that is broken is broken for longer.
func limits() check.Limits {
	return check.Limits{
		Deadline:  3 * time.Minute,
		Grace:     2 * time.Second, // one look of an executor
		Decision:  2 * time.Second, // one look of a runner
		Refusal:   time.Second,
		Heartbeat: cluster.Heartbeat() + 8*time.Second,
	}
}

// settleTimeout is shorter where something is to go wrong for good.
func (s session) settleTimeout() time.Duration {
	if s.options.weaken != "" {
		return settleTimeout / 3
	}
	return settleTimeout
}

// session is one seed.
type session struct {
	options  options
	seed     uint64
	dir      string
	programs testcluster.Programs
}

// run starts a cluster, harms it under load, lets it come to rest, and checks it.
func (s session) run(ctx context.Context, f *figures) (err error) {
	dir := filepath.Join(s.dir, fmt.Sprintf("seed-%d", s.seed))
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL runs as another user below it
		return err
	}
	file, err := os.Create(filepath.Join(dir, "record.jsonl"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	watch := newStopwatch()
	c, err := s.start(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	log := oplog.New(file)
	w := &observer.Observer{Cluster: c, Log: log, Limits: limits()}
	if err := w.Baseline(ctx); err != nil {
		return err
	}
	watch.end("start")
	plan := nemesis.Plan(s.seed, c.Shape(), s.options.duration, s.options.gap, s.options.faults)
	fmt.Fprintf(os.Stderr, "seed %d: %d NATS nodes, %v of load, %d faults\n", s.seed, c.Shape().Nodes, s.options.duration, len(plan))
	scenarios, err := s.startFaults(ctx, c, log, plan, watch)
	if err != nil {
		return err
	}
	evidence, err := s.collect(ctx, w, watch)
	if err != nil {
		return err
	}
	s.check(evidence, f, outcome{shape: c.Shape(), scenarios: scenarios, phases: watch.phases, lost: lost(c)})
	return log.Err()
}

// collect waits until the cluster is at rest and takes the evidence.
func (s session) collect(ctx context.Context, w *observer.Observer, watch *stopwatch) (*check.Run, error) {
	evidence, err := w.Settle(ctx, s.settleTimeout())
	if err != nil {
		return nil, err
	}
	if err := w.Noted(evidence); err != nil {
		return nil, err
	}
	back, err := w.Held(ctx, evidence, 0)
	if err != nil {
		return nil, err
	}
	watch.end("rest")
	if err := w.View(ctx, evidence); err != nil {
		return nil, err
	}
	watch.end("reads")
	if !back { // the reads were a part of the time that it may take
		if _, err := w.Held(ctx, evidence, observer.RestWait); err != nil {
			return nil, err
		}
		watch.end("resources")
	}
	if s.options.expireOf(s.seed) {
		if err := late(ctx, w, s.users(w.Cluster, w.Log), evidence); err != nil {
			return nil, err
		}
		watch.end("expiry")
	}
	return evidence, nil
}

// start starts the cluster that the seed says.
func (s session) start(ctx context.Context, dir string) (*cluster.Cluster, error) {
	o := cluster.Options{
		Dir: dir, Programs: s.programs, Nodes: s.options.nodesOf(s.seed), Disks: s.options.powerOf(s.seed), AckWait: ackWait,
		Weaken: s.options.weaken,
	}
	switch {
	case o.Weaken == lateSync:
		o.Sync = "2s" // late enough to lose something, and soon enough that the streams stay
	case o.Disks:
		o.Sync = "always"
	}
	c, err := cluster.Start(ctx, o)
	if err != nil || !o.Disks || c.Shape().Disks {
		return c, err
	}
	if o.Weaken == lateSync {
		return nil, errors.Join(fmt.Errorf("-weaken %s: no disk can lose power here: %w", lateSync, c.NoDisks()), c.Stop())
	}
	fmt.Fprintf(os.Stderr, "seed %d: no disk can lose power here: %v\n", s.seed, c.NoDisks())
	return c, nil
}

// startFaults lets the clients work while the nemesis does, heals everything, and waits until the clients have ended. The clients
// begin scenarios until the last fault is undone, which may be later than the time of the load.
func (s session) startFaults(
	ctx context.Context, c *cluster.Cluster, log *oplog.Log, plan []nemesis.Fault, watch *stopwatch,
) (scenarios int, err error) {
	load, done := context.WithTimeout(ctx, s.options.duration)
	defer done()
	begin, enough := context.WithCancel(ctx)
	defer enough()
	tell, cancel := context.WithCancel(ctx)
	defer cancel()
	crew := s.users(c, log)
	ended := make(chan int, 1)
	go func() { ended <- crew.Run(tell, begin) }() // is waited for below
	n := &nemesis.Nemesis{Cluster: c, Log: log}
	n.Run(load, plan)
	<-load.Done()
	enough()
	watch.end("load and faults")
	if err := c.Heal(ctx); err != nil {
		cancel()
		<-ended
		return 0, fmt.Errorf("heal: %w", err)
	}
	watch.end("heal")
	timer := time.AfterFunc(s.settleTimeout(), cancel)
	defer timer.Stop()
	scenarios = <-ended
	watch.end("last scenarios")
	return scenarios, ctx.Err()
}

// users is the clients of the seed.
func (s session) users(c *cluster.Cluster, log *oplog.Log) workload.Users {
	return workload.Users{
		Gateways: c.Gateways, Hub: c.Hub, Remote: cluster.RemoteAgent, Keys: c.Keys, Tenants: cluster.Tenants(),
		Users: s.options.users, Seed: s.seed, Log: log,
	}
}

func lost(c *cluster.Cluster) int {
	all := 0
	for _, n := range c.Nodes() {
		all += n.Lost()
	}
	return all
}

// shownHistories is how many histories are printed of one seed.
const shownHistories = 3

// check checks the evidence and reports every violation.
func (s session) check(evidence *check.Run, f *figures, o outcome) {
	found := evidence.Check()
	f.add(evidence, found, o)
	fmt.Fprintf(os.Stderr, "seed %d: %d requests, %d violations (%v)\n", s.seed, len(evidence.Logs), len(found), o.phases)
	shown := map[check.ID]bool{}
	for i, v := range found {
		if i == 50 {
			_, _ = fmt.Fprintf(os.Stdout, "seed %d: and %d more\n", s.seed, len(found)-i)
			break
		}
		_, _ = fmt.Fprintf(os.Stdout, "seed %d: %s\n", s.seed, v) // it is counted even if the output fails
		if v.ID != (check.ID{}) && !shown[v.ID] && len(shown) < shownHistories && s.options.weaken == "" {
			shown[v.ID] = true
			evidence.History(os.Stdout, v.ID)
		}
	}
}
