package bus

import (
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// A random run that fails prints its seed. These repeat it, and say how many there are.
var (
	simSeed  = flag.Uint64("sim.seed", 0, "run the simulation with this seed alone")
	simSeeds = flag.Uint64("sim.seeds", seedsEach, "how many seeds the simulation runs, for each scenario and number of replicas")
)

// quiet drops what the product logs about faults: here they are wanted.
func quiet(t *testing.T) {
	t.Helper()
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { slog.SetDefault(before) })
}

// eachScenario runs a test for each scenario, on one replica and on three. It waits for all of them.
func eachScenario(t *testing.T, test func(*testing.T, scenario, simConfig)) {
	t.Helper()
	t.Run("all", func(t *testing.T) {
		for _, sc := range scenarios() {
			for _, replicas := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s, R%d", sc.name, replicas), func(t *testing.T) {
					t.Parallel()
					test(t, sc, simConfig{seed: 1, replicas: replicas})
				})
			}
		}
	})
}

// The tests of the simulation are not parallel to others, but to themselves: they change the default logger.

func TestSimulationOfRandomFaults(t *testing.T) {
	quiet(t)
	var mu sync.Mutex
	seen := map[string]int{}
	eachScenario(t, func(t *testing.T, sc scenario, cfg simConfig) {
		cfg.random = true
		from, to := uint64(1), *simSeeds+1
		if *simSeed > 0 {
			from, to = *simSeed, *simSeed+1
		}
		for cfg.seed = from; cfg.seed < to; cfg.seed++ {
			w := simulate(t, sc, cfg)
			if *simSeed > 0 {
				t.Log("the run:\n" + w.cluster.story.String())
			}
			if len(w.violations) > 0 {
				t.Fatalf("seed %d (repeat it with -run '%s' -sim.seed=%d):\n%s",
					cfg.seed, t.Name(), cfg.seed, strings.Join(w.violations, "\n"))
			}
			mu.Lock()
			for what, n := range w.cluster.seen {
				seen[what] += n
			}
			mu.Unlock()
		}
	})
	t.Log(seen)
	if *simSeed > 0 || t.Failed() {
		return
	}
	for _, rare := range []string{
		"answer lost", "dropped by a leader that fell", "duplicate", "its id is in process", "its subject is in process",
		"live message lost", "moved out of the backlog", "outage", "process died", "process frozen", "reaped", "redelivery", "refused",
		"request delivered twice", "request lost", "stale read", "takeover", "wrong last sequence",
	} {
		if seen[rare] == 0 {
			t.Errorf("no run has seen this happen: %s", rare)
		}
	}
}

// Whatever a process is about to do, and whatever it has just done, it may die or freeze there.
func TestSimulationOfFaultAtEveryCall(t *testing.T) {
	quiet(t)
	eachScenario(t, func(t *testing.T, sc scenario, cfg simConfig) {
		undisturbed := simulate(t, sc, cfg)
		harms := moments(sc, undisturbed)
		runs := make([][]moment, 0, len(harms)+1)
		runs = append(runs, nil)
		for _, m := range harms {
			runs = append(runs, []moment{m})
		}
		if sc.short {
			runs = append(runs, pairs(sc, harms)...)
		}
		for i, harms := range runs {
			if raceDetector && i%10 > 0 {
				continue
			}
			cfg.harms = harms
			w := simulate(t, sc, cfg)
			if len(w.violations) > 0 {
				t.Fatalf("%v:\n%s", cfg.harms, strings.Join(w.violations, "\n"))
			}
		}
		t.Logf("%d runs", len(runs))
	})
}

// moments are all the moments of a run in which a process may fail and another process can take over.
func moments(sc scenario, w *simWorld) []moment {
	counts := map[string]int{"runner": sc.runners, "gateway": sc.gateways, "executor": sc.executors}
	var all []moment
	for _, p := range w.processes {
		kind, _, _ := strings.Cut(p.name, "-")
		if counts[kind] < 2 {
			continue
		}
		for call := range p.calls {
			for _, h := range []harm{diesBefore, diesAfter, freezes} {
				all = append(all, moment{p.name, call + 1, h})
			}
		}
	}
	return all
}

// pairs are all pairs of deaths of two processes that leave one of each kind.
func pairs(sc scenario, harms []moment) [][]moment {
	var all [][]moment
	for i, a := range harms {
		for _, b := range harms[i+1:] {
			kindA, _, _ := strings.Cut(a.process, "-")
			kindB, _, _ := strings.Cut(b.process, "-")
			if a.process == b.process || kindA == kindB && sc.runners < 3 || a.harm == freezes || b.harm == freezes {
				continue
			}
			all = append(all, []moment{a, b})
		}
	}
	return all
}

// Without one of the safeguards the checks must notice: otherwise they prove nothing.
func TestSimulationNoticesWhatIsMissing(t *testing.T) {
	quiet(t)
	tests := []struct {
		missing  safeguard
		scenario string
		replicas int
		notices  string
	}{
		{noCompareAndSet, "takeover", 1, "terminal events"},
		{noCompareAndSet, "two requests on one thread", 3, "no order"},
		{noCompareAndSet, "resolve by two gateways", 1, "is resolved by"},
		{noMessageID, "append and terminal", 1, "fenced without a later claim"},
		{noMessageID, "abort against done", 3, "no order"},
		{noReadBack, "append and terminal", 1, "fenced without a later claim"},
		{noReadBack, "idempotent retry", 1, "no order"},
		{noLeaderRead, "two requests on one thread", 3, "no order"},
		{noGapFill, "append and terminal", 1, "client"},
		{noLateAck, "claim", 1, "has no end"},
		{noLateAck, "takeover", 3, "has no end"},
	}
	t.Run("all", func(t *testing.T) {
		for _, test := range tests {
			t.Run(fmt.Sprintf("%s, %s, R%d", test.missing, test.scenario, test.replicas), func(t *testing.T) {
				t.Parallel()
				notice(t, test.scenario, test.notices, simConfig{replicas: test.replicas, missing: test.missing, random: true})
			})
		}
	})
}

// notice runs seeds until there is a violation that says what is wrong.
func notice(t *testing.T, name, notices string, cfg simConfig) {
	t.Helper()
	const seeds = 300
	for _, sc := range scenarios() {
		if sc.name != name {
			continue
		}
		for cfg.seed = 1; cfg.seed <= seeds; cfg.seed++ {
			for _, v := range simulate(t, sc, cfg).violations {
				if strings.Contains(v, notices) {
					t.Logf("seed %d: %.200s", cfg.seed, v)
					return
				}
			}
		}
	}
	t.Fatalf("%d seeds, and no violation that says %q", seeds, notices)
}

// A process that wakes from a freeze finds several things to have happened at once, and Go then chooses one. Such runs
// repeat mostly, all others always, as far as the streams go: which of two readers in a process is the first is chance.
func TestSimulationRepeatsASeed(t *testing.T) {
	quiet(t)
	eachScenario(t, func(t *testing.T, sc scenario, cfg simConfig) {
		cfg.random, cfg.awake = true, true
		for cfg.seed = range uint64(10) {
			first, second := simulate(t, sc, cfg), simulate(t, sc, cfg)
			if first.cluster.trace != second.cluster.trace {
				t.Errorf("seed %d went another way when it was repeated: first\n%s\nthen\n%s",
					cfg.seed, &first.cluster.story, &second.cluster.story)
			}
		}
	})
}
