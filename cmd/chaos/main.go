// Command chaos runs agentbus in separate processes, injects the faults of a seed, and checks afterwards that every
// promise was kept: see docs/reliability.md for the invariants.
//
//	go run ./cmd/chaos                             one seed, 45 s of load
//	go run ./cmd/chaos -seeds 20 -nodes both       twenty seeds, on one NATS node and on three by turns
//	go run ./cmd/chaos -seed 17                    one seed again
//	go run ./cmd/chaos -weaken early-ack           without a safeguard: this must find a violation
//
// It ends with status 1 when an invariant does not hold, and shows the history of the request. When it is interrupted it
// prints the figures of the seeds that are complete. It needs Linux, and
// redis-server and PostgreSQL installed. For the loss of power it needs root and loop devices too, and goes without it
// elsewhere.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/cluster"
	"github.com/agentbus/agentbus/pkg/weaken"
)

// options are the flags.
type options struct {
	seeds    int
	first    uint64
	duration time.Duration
	nodes    string
	power    string
	expire   string
	users    int
	gap      time.Duration
	faults   []string
	weaken   string
	require  bool
	report   string
	keep     string
	programs string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func parse(args []string) (options, error) {
	var o options
	var faults string
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.IntVar(&o.seeds, "seeds", 1, "how many seeds, one after the other")
	flags.Uint64Var(&o.first, "seed", 1, "the first seed")
	flags.DurationVar(&o.duration, "duration", 45*time.Second, "time of load and faults for each seed")
	flags.StringVar(&o.nodes, "nodes", "1", "nodes of NATS: 1, 3, or both for one and three by turns")
	flags.StringVar(&o.power, "power", "both", "disks of NATS that lose power, and sync_interval: always: yes, no, or both by turns")
	flags.StringVar(&o.expire, "expire", "both", "after the load all expires, and keys and threads are used once more: yes, no, or both by turns")
	flags.IntVar(&o.users, "users", 8, "clients at once")
	flags.DurationVar(&o.gap, "gap", 1500*time.Millisecond, "mean time between two faults")
	flags.StringVar(&faults, "faults", "", "words by comma: only faults whose names contain one of them")
	flags.StringVar(&o.weaken, "weaken", "", "a safeguard to go without: "+weakeningNames())
	flags.BoolVar(&o.require, "require", false, "every kind of fault and every rare path must have come")
	flags.StringVar(&o.report, "report", "", "file to write the figures to after each seed, as Markdown")
	flags.StringVar(&o.keep, "keep", "", "folder to keep everything in; default a temporary one, kept after a violation")
	flags.StringVar(&o.programs, "programs", "", "folder of the programs: those that it holds are run, the others are built there")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if !slices.Contains([]string{"1", "3", "both"}, o.nodes) {
		return o, fmt.Errorf("-nodes %s: it must be 1, 3 or both", o.nodes)
	}
	if !slices.Contains([]string{"yes", "no", "both"}, o.expire) {
		return o, fmt.Errorf("-expire %s: it must be yes, no or both", o.expire)
	}
	if !slices.Contains([]string{"yes", "no", "both"}, o.power) {
		return o, fmt.Errorf("-power %s: it must be yes, no or both", o.power)
	}
	weak, ok := weakeningOf(o.weaken)
	if o.weaken != "" && !ok {
		return o, fmt.Errorf("-weaken %s: it must be one of %s", o.weaken, weakeningNames())
	}
	if min(o.seeds, o.users) < 1 || min(o.duration, o.gap) <= 0 {
		return o, errors.New("-seeds, -users, -duration and -gap must be at least 1")
	}
	if o.faults = strings.FieldsFunc(faults, func(r rune) bool { return r == ',' }); len(o.faults) == 0 {
		o.faults = weak.faults
	}
	if o.weaken != "" {
		o.power, o.expire = weak.power, weak.expire
	}
	return o, nil
}

// weakening is a safeguard that a run switches off, to show that the checker detects the violation.
type weakening struct {
	name   string
	power  string   // as in options
	expire string   // as in options
	faults []string // that it guards against; none = all
}

// lateSync is the weakening that is NATS's own.
const lateSync = "late-sync"

func weakenings() []weakening {
	return []weakening{
		{"no-compare-and-set", "no", "no", nil},
		{"early-ack", "no", "no", []string{"agent-runner"}},
		{"raw-subject", "no", "no", []string{"freeze agent-runner", "kill agent-runner", "nats"}},
		{"no-gap-filling", "no", "no", nil},
		{"discard-old", "no", "no", nil},
		{"no-read-back", "no", "no", []string{"lose answers to agent-runner", "kill nats"}},
		{lateSync, "yes", "no", []string{"power loss"}},
		{string(weaken.DiscardOpen), "no", "no", []string{"kill agent-runner"}},
		{string(weaken.RepeatBlocks), "no", "no", []string{"kill agent-runner"}},
		{string(weaken.Approvals), "no", "no", []string{"slow network"}},
		{string(weaken.OneResult), "no", "no", []string{"slow network"}},
		{string(weaken.Steers), "no", "no", []string{"slow network"}},
		{string(weaken.LastLook), "no", "no", []string{"slow network"}},
		{string(weaken.AbortBeforeRun), "no", "no", []string{"kill tool-executor", "partition tool-executor"}},
		{string(weaken.WholeMessages), "no", "no", []string{"slow network"}},
		{string(weaken.WholeHistory), "no", "no", []string{"slow network"}},
		{string(weaken.Relay), "no", "no", []string{"slow network"}},
		{string(weaken.ThreadCursor), "no", "no", []string{"slow network"}},
		{string(weaken.OneTask), "no", "no", []string{"slow network"}},
		{string(weaken.RemotePlace), "no", "no", []string{"kill agent-runner"}},
		{string(weaken.OldKeys), "no", "yes", []string{"slow network"}},
	}
}

// weakeningOf finds one by its name.
func weakeningOf(name string) (weakening, bool) {
	for _, w := range weakenings() {
		if w.name == name {
			return w, true
		}
	}
	return weakening{}, false
}

func weakeningNames() string {
	var names []string
	for _, w := range weakenings() {
		names = append(names, w.name)
	}
	return strings.Join(names, ", ")
}

// nodesOf is how many NATS nodes a seed runs on.
func (o options) nodesOf(seed uint64) int {
	if o.nodes == "3" || o.nodes == "both" && seed%2 == 0 {
		return 3
	}
	return 1
}

// powerOf is whether the disks of NATS may lose power with a seed. Turns are two seeds long, so that one node and three
// have theirs.
func (o options) powerOf(seed uint64) bool {
	return o.power == "yes" || o.power == "both" && (seed%4 == 1 || seed%4 == 2)
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir := o.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "agentbus-chaos-"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL runs as another user below it
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	fmt.Fprintln(os.Stderr, "building")
	programs, err := cluster.Build(ctx, cmp.Or(o.programs, dir))
	if err != nil {
		return err
	}
	f := newFigures(o)
	failed := sessions(ctx, o, f, func(seed uint64) error {
		return session{options: o, seed: seed, dir: dir, programs: programs}.run(ctx, f)
	})
	if _, err := fmt.Fprintln(os.Stdout, f.markdown()); err != nil {
		return errors.Join(failed, err)
	}
	if failed != nil {
		return fmt.Errorf("%w after %d of %d seeds, with %d violations (logs in %s)", failed, f.seeds(), o.seeds, f.violated(), dir)
	}
	return conclude(o, f, dir)
}

// sessions runs one seed after the other, and writes the report again after each, so that it is there if a later one
// fails or is interrupted.
func sessions(ctx context.Context, o options, f *figures, run func(seed uint64) error) error {
	for i := range o.seeds {
		seed := o.first + uint64(i)
		if err := run(seed); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("seed %d: interrupted", seed)
			}
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		if err := writeReport(o.report, f); err != nil {
			return err
		}
	}
	return nil
}

// writeReport replaces the report with the figures so far. A reader sees the old one or the new one.
func writeReport(path string, f *figures) error {
	if path == "" {
		return nil
	}
	next := path + ".next"
	if err := os.WriteFile(next, []byte(f.markdown()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// conclude says what the figures of all seeds mean.
func conclude(o options, f *figures, dir string) error {
	if o.weaken != "" {
		if f.violated() == 0 {
			return fmt.Errorf("with -weaken %s nothing was found: the checker is blind, or the run too short (logs in %s)",
				o.weaken, dir)
		}
		_, err := fmt.Fprintf(os.Stdout, "found, as it must be: with -weaken %s these do not hold: %s\n",
			o.weaken, strings.Join(f.broken(), ", "))
		return errors.Join(err, discard(o, dir))
	}
	if n := f.violated(); n > 0 {
		return fmt.Errorf("%d violations (logs in %s)", n, dir)
	}
	if missing := f.missing(f.kinds()); o.require && len(missing) > 0 {
		return fmt.Errorf("these never came: %s", strings.Join(missing, ", "))
	}
	return discard(o, dir)
}

// discard removes files, unless they are to be kept.
func discard(o options, dir string) error {
	if o.keep != "" {
		return nil
	}
	return os.RemoveAll(dir)
}
