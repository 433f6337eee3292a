package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/cmd/chaos/internal/cluster"
	"github.com/agentbus/agentbus/cmd/chaos/internal/nemesis"
	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
)

// outcome is the result of a session, apart from its evidence.
type outcome struct {
	shape     cluster.Shape
	scenarios int
	phases    phases
	lost      int
}

// figures are the sums over all seeds.
type figures struct {
	options    options
	runs       map[cluster.Shape]int
	phases     phases
	scenarios  int
	requests   int
	ends       map[event.Name]int
	events     int
	reads      int
	executions int
	takeovers  int
	scripted   int // requests whose words were compared with their script
	views      int
	lost       int
	violations map[string]int
	faults     map[string]int
	sometimes  map[string]int
	recovery   map[string][]time.Duration // by fault
	answers    []time.Duration            // of probes
	stall      time.Duration              // the longest time between two frames of a request
	growth     map[string]float64         // the most that any process holds more than before
}

func newFigures(o options) *figures {
	return &figures{
		options: o, runs: map[cluster.Shape]int{}, ends: map[event.Name]int{}, violations: map[string]int{}, faults: map[string]int{},
		sometimes: map[string]int{}, recovery: map[string][]time.Duration{}, growth: map[string]float64{},
	}
}

// add adds a seed.
func (f *figures) add(r *check.Run, found []check.Violation, o outcome) {
	f.runs[o.shape]++
	f.phases = f.phases.plus(o.phases)
	f.scenarios += o.scenarios
	f.lost += o.lost
	for _, l := range r.Logs {
		if len(l.Frames) > 0 { // one that was refused after its record was written has none
			f.addLog(l)
		}
	}
	for _, x := range r.Executions {
		if !x.Ended {
			f.executions++
		}
	}
	for _, v := range found {
		f.violations[v.Invariant]++
	}
	for what, n := range r.Sometimes() {
		f.sometimes[what] += n
	}
	for _, held := range r.Resources {
		f.growth[held.Name] = max(f.growth[held.Name], held.After-held.Before)
	}
	f.scripted += r.Scripted()
	f.views += len(r.Views)
	f.addEntries(r.Entries)
}

func (f *figures) addLog(l *check.Log) {
	f.requests++
	f.ends[l.Terminal()]++
	f.events += int(l.Last().Next()) //nolint:gosec // a run has few events
	f.takeovers += check.Takeovers(l)
	for i := 1; i < len(l.Frames); i++ {
		f.stall = max(f.stall, l.Frames[i].Time.Sub(l.Frames[i-1].Time))
	}
}

func (f *figures) addEntries(entries []oplog.Entry) {
	var probes []oplog.Entry
	for _, e := range entries {
		switch e.Op {
		case oplog.Read:
			f.reads++
		case oplog.Probe:
			probes = append(probes, e)
			f.answers = append(f.answers, e.Took)
		case oplog.Fault:
			f.faults[e.Fault]++
		case oplog.Post, oplog.Abort, oplog.Steer, oplog.Watch, oplog.Task, oplog.Late, oplog.Spy: // they have no figure
		}
	}
	for _, e := range entries {
		if e.Op == oplog.Fault {
			f.recovery[e.Fault] = append(f.recovery[e.Fault], recovery(e, probes))
		}
	}
}

// recovery is how long after the start of a fault the last small request ended that it may have held up: one that was on
// its way when the fault began, or began while it lasted.
func recovery(fault oplog.Entry, probes []oplog.Entry) time.Duration {
	longest := time.Duration(0)
	for _, p := range probes {
		if p.At <= fault.At+fault.Took && p.At+p.Took >= fault.At {
			longest = max(longest, p.At+p.Took-max(p.At, fault.At))
		}
	}
	return longest
}

// faulted is how many faults came.
func (f *figures) faulted() int {
	n := 0
	for _, count := range f.faults {
		n += count
	}
	return n
}

func (f *figures) violated() int {
	n := 0
	for _, count := range f.violations {
		n += count
	}
	return n
}

// broken names the invariants that did not hold.
func (f *figures) broken() []string {
	var names []string
	for _, invariant := range check.Invariants() {
		if f.violations[invariant.Name] > 0 {
			names = append(names, invariant.Name)
		}
	}
	return names
}

// seeds is how many are complete.
func (f *figures) seeds() int {
	all := 0
	for _, n := range f.runs {
		all += n
	}
	return all
}

// seedsOf is how many had so many NATS nodes, and with or without disks that lose power.
func (f *figures) seedsOf(nodes int, disks bool) int {
	return f.runs[cluster.Shape{Nodes: nodes, Disks: disks}]
}

// kinds are those of the faults that a run could have.
func (f *figures) kinds() []string {
	var names []string
	for shape := range f.runs {
		names = append(names, nemesis.Kinds(shape)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// missing is what never came, of the kinds of faults and the rare paths.
func (f *figures) missing(kinds []string) []string {
	var missing []string
	for _, what := range append(kinds, check.Paths()...) {
		if f.sometimes[what] == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}

// markdown is the report.
func (f *figures) markdown() string {
	var b strings.Builder
	row := func(cells ...any) {
		for _, cell := range cells {
			fmt.Fprintf(&b, "| %v ", cell)
		}
		b.WriteString("|\n")
	}
	fmt.Fprintf(&b, "`go run ./cmd/chaos %s`\n\n", f.options.command())
	if done := f.seeds(); done < f.options.seeds {
		fmt.Fprintf(&b, "The first %d of %d seeds.\n\n", done, f.options.seeds)
	}
	row("what", "")
	row("---", "---:")
	row("seeds", fmt.Sprintf("%d on one NATS node, %d on three",
		f.seedsOf(1, true)+f.seedsOf(1, false), f.seedsOf(3, true)+f.seedsOf(3, false)))
	row("of these with disks that lose power", f.seedsOf(1, true)+f.seedsOf(3, true))
	row("wall time", f.phases.total().Round(time.Second))
	for _, p := range f.phases {
		row("of this: "+p.name, p.took.Round(time.Second))
	}
	row("faults", f.faulted())
	row("requests", f.requests)
	row("of these done, error, aborted",
		fmt.Sprintf("%d, %d, %d", f.ends[event.NameDone], f.ends[event.NameError], f.ends[event.NameAborted]))
	row("of these compared with their scripts", f.scripted)
	row("events", f.events)
	row("reads by every route, before and after retention", f.views)
	row("connections that read a stream", f.reads)
	row("executions of tools", f.executions)
	row("takeovers", f.takeovers)
	row("services and servers that ended by themselves, and were started again", f.lost)
	row("longest time between two frames of a request", f.stall.Round(time.Millisecond))
	row("a small request, p50 / p99 / longest", fmt.Sprintf("%v / %v / %v",
		quantile(f.answers, 0.5), quantile(f.answers, 0.99), quantile(f.answers, 1)))
	for _, name := range slices.Sorted(maps.Keys(f.growth)) {
		row("most "+name+" held longer than the run", fmt.Sprintf("%.0f", f.growth[name]))
	}
	row("violations", f.violated())
	b.WriteString("\n")
	f.tables(row, &b)
	return b.String()
}

func (f *figures) tables(row func(...any), b *strings.Builder) {
	row("invariant", "violations")
	row("---", "---:")
	for _, invariant := range check.Invariants() {
		row(invariant.Name+": "+invariant.Says, f.violations[invariant.Name])
	}
	b.WriteString("\n")
	row("fault", "times", "recovery p50", "longest")
	row("---", "---:", "---:", "---:")
	for _, kind := range slices.Sorted(maps.Keys(f.faults)) {
		row(kind, f.faults[kind], quantile(f.recovery[kind], 0.5), quantile(f.recovery[kind], 1))
	}
	b.WriteString("\n")
	row("rare path", "times")
	row("---", "---:")
	for _, path := range check.Paths() {
		row(path, f.sometimes[path])
	}
}

// command is the flags that repeat the run.
func (o options) command() string {
	text := fmt.Sprintf("-seed %d -seeds %d -duration %v -nodes %s -users %d -gap %v", o.first, o.seeds, o.duration, o.nodes, o.users, o.gap)
	if o.power != "both" && o.weaken == "" {
		text += " -power " + o.power
	}
	if o.expire != "both" && o.weaken == "" {
		text += " -expire " + o.expire
	}
	if len(o.faults) > 0 {
		text += ` -faults "` + strings.Join(o.faults, ",") + `"`
	}
	if o.weaken != "" {
		text += " -weaken " + o.weaken
	}
	return text
}

// quantile is the value that a share q of all does not exceed.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	ordered := slices.SortedFunc(slices.Values(all), cmp.Compare[time.Duration])
	return ordered[min(int(q*float64(len(ordered))), len(ordered)-1)].Round(time.Millisecond)
}
