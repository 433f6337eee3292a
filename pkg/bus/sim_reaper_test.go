package bus

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// The reaper's times.
const (
	simAbortPause = time.Second      // what a runner gets to begin an aborted request; it is a little longer for some
	simAbortWait  = 30 * time.Second // and to end one
	simSweep      = 15 * time.Second // between two sweeps
	simQuiet      = 2 * simSweep     // how long nothing must have come of a request
)

// notified receives all aborts.
func (r *simRunner) heard(_ string, a record.Abort) {
	r.world.actors.Go(func() {
		luck := r.cluster.dice.at("heard", r.name)
		if broker.Pause(r.ctx, spell(luck, simAbortPause, 2*simAbortPause)) != nil {
			return
		}
		_, err := r.bus.Last(r.ctx, broker.LogID{Tenant: simTenant, RequestID: a.RequestID})
		if errors.Is(err, broker.ErrNotFound) {
			_ = r.conclude(r.ctx, a.RequestID) // the sweep finds what is left of it
		}
	})
}

// sweep looks, again and again, at requests that have not ended and are quiet.
func (r *simRunner) sweep() {
	for n := 0; ; n++ {
		luck := r.cluster.dice.at("sweep", r.name, string(rune(n)))
		if broker.Pause(r.ctx, spell(luck, simSweep/2, simSweep+simSweep/2)) != nil {
			return
		}
		_, _ = r.bus.AdvanceBacklog(r.ctx, 0) // the next sweep comes
		for _, requestID := range r.world.open(simQuiet) {
			_ = r.visit(r.ctx, requestID) // the next sweep comes
		}
	}
}

// visit looks what a request lacks.
func (r *simRunner) visit(ctx context.Context, requestID string) error {
	log := broker.LogID{Tenant: simTenant, RequestID: requestID}
	last, err := r.bus.Last(ctx, log)
	begun := err == nil
	switch {
	case begun && (last.Terminal() || time.Since(last.Time) < simQuiet):
		return nil
	case err != nil && !errors.Is(err, broker.ErrNotFound):
		return err
	}
	a, err := r.bus.Accepted(ctx, log)
	if err != nil {
		return err
	}
	abort, err := r.bus.Aborted(ctx, log)
	switch {
	case err == nil && (!begun || time.Since(abort.At) > simAbortWait):
		return r.conclude(ctx, requestID)
	case err != nil && !errors.Is(err, broker.ErrNotFound):
		return err
	case !begun:
		_, err := r.queue().Next(ctx, simTenant, a.ThreadID, -1)
		return err
	}
	_, err = r.queue().EnsurePointer(ctx, a)
	return err
}

// conclude ends an aborted request that no runner has.
func (r *simRunner) conclude(ctx context.Context, requestID string) error {
	a, err := r.bus.Accepted(ctx, broker.LogID{Tenant: simTenant, RequestID: requestID})
	if err != nil {
		return err
	}
	if r.cluster.missing != noAbortPointer {
		if _, err := r.queue().EnsurePointer(ctx, a); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run, err := r.claim(ctx, a)
	if err == nil {
		r.cluster.note("reaped")
		err = run.end(ctx, event.Aborted{})
		run.writer.Close()
	}
	if err != nil && !errors.Is(err, broker.ErrEnded) {
		return err
	}
	_, err = r.queue().Next(ctx, simTenant, a.ThreadID, -1)
	return err
}

// TestAbortOfWaitingRequestSurvivesGatewayCrash lets runners die at each of their calls. What one had begun must
// not have to wait for a sweep.
func TestAbortOfWaitingRequestSurvivesGatewayCrash(t *testing.T) {
	quiet(t)
	for _, replicas := range []int{1, 3} {
		n, runs := lateAborts(t, simConfig{replicas: replicas})
		if n > 0 {
			t.Errorf("R%d: in %d of %d runs the request waited for a sweep", replicas, n, runs)
		}
		n, runs = lateAborts(t, simConfig{replicas: replicas, missing: noAbortPointer})
		if n == 0 {
			t.Errorf("R%d: without a pointer the request waited in none of %d runs: the test shows nothing", replicas, runs)
		}
	}
}

// lateAborts counts the runs in which an aborted request waited for a sweep.
func lateAborts(t *testing.T, cfg simConfig) (late, runs int) {
	t.Helper()
	sc := scenario{
		name: "abort of a request that waits", runners: 3, gateways: 1,
		plans: map[string]simPlan{"r1": {steps: 4, think: 30 * time.Second}, "r2": {steps: 1}}, play: playWaitAndAbort,
	}
	for cfg.seed = 1; cfg.seed <= 3; cfg.seed++ {
		cfg.harms = nil
		for _, m := range moments(sc, simulate(t, sc, cfg)) {
			if m.harm == freezes {
				continue
			}
			cfg.harms = []moment{m}
			w := simulate(t, sc, cfg)
			if len(w.violations) > 0 {
				t.Fatalf("seed %d, %v: %v", cfg.seed, m, w.violations)
			}
			log := w.log("r2")
			runs++
			if log[len(log)-1].Time.Sub(w.aborts["r2"]) >= simQuiet {
				late++
			}
		}
	}
	return late, runs
}

// playWaitAndAbort aborts a request that waits behind one that runs for a minute.
func playWaitAndAbort(w *simWorld) {
	w.client("a", func(c *simClient) error {
		if err := c.post(first("r1")); err != nil {
			return err
		}
		call := first("r2")
		call.queue = 1
		if err := c.post(call); err != nil {
			return err
		}
		if err := c.abort("r2"); err != nil {
			return err
		}
		return c.watch("r2")
	})
}
