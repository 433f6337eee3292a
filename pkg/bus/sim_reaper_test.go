package bus

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/event"
)

// The reaper's times.
const (
	simAbortPause = time.Second      // what a runner gets to begin an aborted request
	simAbortWait  = 30 * time.Second // and to end one
	simSweep      = 15 * time.Second // between two sweeps
	simQuiet      = 2 * simSweep     // how long nothing must have come of a request
)

// heard is told of all aborts.
func (r *simRunner) heard(_ string, a command.Abort) {
	r.world.actors.Go(func() {
		if pause(r.ctx, simAbortPause) != nil {
			return
		}
		_, err := r.bus.Last(r.ctx, LogID{simTenant, a.RequestID})
		if errors.Is(err, ErrNotFound) {
			_ = r.conclude(r.ctx, a.RequestID) // the sweep finds what is left of it
		}
	})
}

// sweep looks, again and again, at requests that have not ended and are quiet.
func (r *simRunner) sweep() {
	for n := 0; ; n++ {
		luck := r.cluster.dice.at("sweep", r.name, string(rune(n)))
		if pause(r.ctx, spell(luck, simSweep/2, simSweep+simSweep/2)) != nil {
			return
		}
		for _, requestID := range r.world.open(simQuiet) {
			_ = r.visit(r.ctx, requestID) // the next sweep comes
		}
	}
}

// visit looks what a request lacks.
func (r *simRunner) visit(ctx context.Context, requestID string) error {
	log := LogID{simTenant, requestID}
	last, err := r.bus.Last(ctx, log)
	begun := err == nil
	switch {
	case begun && (last.Terminal() || time.Since(last.Time) < simQuiet):
		return nil
	case err != nil && !errors.Is(err, ErrNotFound):
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
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	case !begun:
		return r.next(ctx, a.ThreadID, -1)
	}
	for record, err := range r.bus.ThreadRecords(ctx, simTenant, a.ThreadID, 0) {
		if err != nil {
			return err
		}
		if record.RequestID == requestID {
			return r.world.point(ctx, r.bus, record)
		}
	}
	return nil
}

// conclude ends an aborted request that nobody runs.
func (r *simRunner) conclude(ctx context.Context, requestID string) error {
	a, err := r.bus.Accepted(ctx, LogID{simTenant, requestID})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run, err := r.claim(ctx, a)
	if err == nil {
		r.cluster.note("reaped")
		err = run.end(ctx, event.Aborted{})
		run.writer.Close()
	}
	if err != nil && !errors.Is(err, ErrEnded) {
		return err
	}
	return r.next(ctx, a.ThreadID, -1)
}
