package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/cmd/chaos/internal/cluster"
	"github.com/agentbus/agentbus/cmd/chaos/internal/nemesis"
	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args string
		err  string // a part of it; "" = none
	}{
		{"", ""},
		{"-seeds 3 -seed 7 -nodes both -duration 1m", ""},
		{"-weaken early-ack", ""},
		{"-weaken nothing", "-weaken nothing: it must be one of no-compare-and-set"},
		{"-nodes 2", "-nodes 2"},
		{"-power maybe", "-power maybe"},
		{"-seeds 0", "at least 1"},
		{"-gap 0s", "at least 1"},
		{"extra", `unexpected argument "extra"`},
	}
	for _, test := range tests {
		_, err := parse(strings.Fields(test.args))
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%q: got %v, want %q", test.args, err, test.err)
		}
	}
}

func TestSeedsTakeTurns(t *testing.T) {
	t.Parallel()
	for nodes, want := range map[string][2]int{"1": {1, 1}, "3": {3, 3}, "both": {1, 3}} {
		o := options{nodes: nodes}
		if got := [2]int{o.nodesOf(1), o.nodesOf(2)}; got != want {
			t.Errorf("-nodes %s: got %v, want %v", nodes, got, want)
		}
	}
}

func TestDisksLosePowerOnOneNodeAndOnThree(t *testing.T) {
	t.Parallel()
	seen := map[[2]bool]bool{} // three nodes, power
	for seed := range uint64(4) {
		o := options{nodes: "both", power: "both"}
		seen[[2]bool{o.nodesOf(seed) == 3, o.powerOf(seed)}] = true
	}
	if len(seen) != 4 {
		t.Errorf("got %v, want each of four", seen)
	}
	if (options{power: "no"}).powerOf(1) || !(options{power: "yes"}).powerOf(3) {
		t.Error("the flag has no effect")
	}
}

func TestEachWeakeningBringsFaults(t *testing.T) {
	t.Parallel()
	for _, w := range weakenings() {
		if plan := nemesis.Plan(1, cluster.Shape{Nodes: 1, Disks: w.power == "yes"}, time.Minute, time.Second, w.faults); len(plan) == 0 {
			t.Errorf("%s: no kind of fault is named like %v", w.name, w.faults)
		}
	}
}

func TestRecoveryIsOfTheSlowestThatAFaultMayHaveHeldUp(t *testing.T) {
	t.Parallel()
	fault := oplog.Entry{At: 10 * time.Second, Took: 2 * time.Second}
	probe := func(at, took int) oplog.Entry { // in seconds
		return oplog.Entry{At: time.Duration(at) * time.Second, Took: time.Duration(took) * time.Second}
	}
	tests := []struct {
		what   string
		probes []oplog.Entry
		want   time.Duration
	}{
		{"no approval was asked for", nil, 0},
		{"one ended before", []oplog.Entry{probe(8, 1)}, 0},
		{"one began behind it", []oplog.Entry{probe(13, 9)}, 0},
		{"one was on its way", []oplog.Entry{probe(9, 4)}, 3 * time.Second},
		{"one began meanwhile", []oplog.Entry{probe(11, 5), probe(11, 1)}, 5 * time.Second},
	}
	for _, test := range tests {
		if got := recovery(fault, test.probes); got != test.want {
			t.Errorf("%s: got %v, want %v", test.what, got, test.want)
		}
	}
}

func TestTheReportCountsWhatWasFound(t *testing.T) {
	t.Parallel()
	f := newFigures(options{expire: "no", seeds: 1, first: 4, nodes: "1", duration: time.Minute, gap: time.Second, users: 2})
	r := &check.Run{
		Logs: map[check.ID]*check.Log{
			{Tenant: "ash", Name: "req_1"}: {Frames: []event.Frame{{Epoch: 2, Names: []event.Name{event.NameClaim, event.NameDone}}}},
			{Tenant: "ash", Name: "req_2"}: {}, // was refused
		},
		Entries: []oplog.Entry{{Op: oplog.Fault, Fault: "kill nats"}, {Op: oplog.Probe, Took: 3 * time.Second}},
	}
	f.add(r, []check.Violation{{Invariant: "I3"}, {Invariant: "I3"}}, outcome{shape: cluster.Shape{Nodes: 1, Disks: true}, phases: phases{{"load", time.Minute}}})
	text := f.markdown()
	for _, want := range []string{
		"-seed 4 -seeds 1 -duration 1m0s -nodes 1 -users 2 -gap 1s", "| requests | 1 |", "| takeovers | 1 |", "| events | 2 |",
		"| kill nats | 1 |", "| of these with disks that lose power | 1 |", "| violations | 2 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if !slices.Equal(f.broken(), []string{"I3"}) || f.violated() != 2 {
		t.Errorf("got %v and %d, want I3 twice", f.broken(), f.violated())
	}
	if missing := f.missing([]string{"kill nats", "kill redis"}); !slices.Contains(missing, "kill redis") || slices.Contains(missing, "kill nats") {
		t.Errorf("got %v missing, want kill redis among them and not kill nats", missing)
	}
}

func TestTheReportOfAnInterruptedRunHasTheSeedsBefore(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.md")
	o := options{seeds: 4, first: 5, report: file}
	f := newFigures(o)
	ctx, interrupt := context.WithCancel(t.Context())
	err := sessions(ctx, o, f, func(seed uint64) error {
		text, err := os.ReadFile(file)
		if seed > 5 && !strings.Contains(string(text), fmt.Sprintf("The first %d of 4 seeds.", seed-5)) {
			t.Errorf("seed %d: the report before it is %.200q, %v", seed, text, err)
		}
		if seed == 7 {
			interrupt()
			return ctx.Err()
		}
		log := &check.Log{Frames: []event.Frame{{Names: []event.Name{event.NameDone}}}}
		r := &check.Run{
			Logs:    map[check.ID]*check.Log{{Tenant: "ash", Name: fmt.Sprint(seed)}: log},
			Entries: []oplog.Entry{{Op: oplog.Fault, Fault: "kill nats"}},
		}
		f.add(r, nil, outcome{shape: cluster.Shape{Nodes: 1}, phases: phases{{"start", time.Second}, {"rest", time.Minute}}})
		return nil
	})
	if err == nil || err.Error() != "seed 7: interrupted" {
		t.Errorf("got %v", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"The first 2 of 4 seeds.", "| requests | 2 |", "| faults | 2 |", "| kill nats | 2 |", "| wall time | 2m2s |", "| of this: rest | 2m0s |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	all := []time.Duration{3 * time.Second, time.Second, 2 * time.Second}
	for q, want := range map[float64]time.Duration{0: time.Second, 0.5: 2 * time.Second, 1: 3 * time.Second} {
		if got := quantile(all, q); got != want {
			t.Errorf("%v: got %v, want %v", q, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("the quantile of nothing is not 0")
	}
}
