// Package service runs a process: it turns signals into an ordered stop, runs the parts of a service concurrently, and
// serves the admin endpoints. Only main functions use it.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// DefaultGrace is how long the actors of a process may take to stop, all together.
const DefaultGrace = 25 * time.Second

// Actor is something that runs as long as the process does.
type Actor struct {
	Name string
	// Run blocks until ctx is done, then finishes what must not be cut and returns. If it returns earlier, the process
	// stops.
	Run func(ctx context.Context) error
}

// Check reports what keeps the process from being useful, nil when nothing does.
type Check struct {
	Name  string
	Ready func(ctx context.Context) error
}

// Parts is what a process consists of.
type Parts struct {
	Actors []Actor // started in this order, stopped in the reverse one, each after the next has ended
	Checks []Check // all must pass for /readyz
	Close  func()  // called once every actor has ended; nil = nothing to do
}

// Options are what every process has.
type Options struct {
	Log       *slog.Logger
	AdminAddr string        // host:port of /healthz, /readyz and /metrics; "" = none
	Metrics   http.Handler  // nil = no /metrics
	Profile   bool          // /debug/pprof, on the admin server
	Grace     time.Duration // 0 = DefaultGrace
}

// Signals returns a context that SIGINT or SIGTERM ends. A second signal ends the process at once.
func Signals(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return ctx, stop
}

// Run runs a process: it opens the admin server, builds the parts, runs the actors until ctx is done or the first of
// them ends, and stops them in order. It returns the errors of the actors, or nil. During build the process is alive
// and not ready; build should return when ctx is done, and Run then returns nil. See [Await].
func Run(ctx context.Context, o Options, build func(context.Context) (Parts, error)) error {
	defer runtime.KeepAlive(ballast())
	limitMemory(o.Log)
	var state readiness
	admin, err := openAdmin(ctx, o, &state)
	if err != nil {
		return err
	}
	defer admin.close()
	parts, err := build(context.WithValue(ctx, waitKey{}, &state))
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		o.Log.InfoContext(ctx, "stopping", "reason", context.Cause(ctx), "while", err)
		return nil
	}
	if err != nil {
		return err
	}
	if parts.Close != nil {
		defer parts.Close()
	}
	g := start(ctx, parts.Actors)
	state.checks.Store(&parts.Checks)
	o.Log.InfoContext(ctx, "started", "admin", admin.addr())

	select {
	case <-ctx.Done():
		o.Log.InfoContext(ctx, "stopping", "reason", context.Cause(ctx))
	case name := <-g.ended:
		o.Log.InfoContext(ctx, "stopping", "reason", name+" ended")
	}
	state.stopping.Store(true)
	grace := o.Grace
	if grace == 0 {
		grace = DefaultGrace
	}
	return g.stop(grace)
}

// RunActors runs actors as [Run] does: until ctx is done or the first of them ends. Then it stops them in order, within grace,
// and returns their errors.
func RunActors(ctx context.Context, actors []Actor, grace time.Duration) error {
	g := start(ctx, actors)
	select {
	case <-ctx.Done():
	case <-g.ended:
	}
	return g.stop(grace)
}

// running is an actor under way.
type running struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// group is the running actors. Each has a separate context, so that they can be stopped one after another.
type group struct {
	actors []*running
	ended  chan string // the name of the first one that has
}

func start(ctx context.Context, actors []Actor) *group {
	g := &group{ended: make(chan string, 1)}
	base := context.WithoutCancel(ctx)
	for _, a := range actors {
		ctx, cancel := context.WithCancel(base)
		r := &running{name: a.Name, cancel: cancel, done: make(chan struct{})}
		g.actors = append(g.actors, r)
		go func() { // ends when the actor does; stop waits for it
			defer close(r.done)
			err := a.Run(ctx)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				err = nil // it ended because of the stop
			}
			if err != nil {
				r.err = fmt.Errorf("%s: %w", a.Name, err)
			}
			select {
			case g.ended <- a.Name:
			default:
			}
		}()
	}
	return g
}

// lastWait is what every other actor gets once one of them has used up the grace.
const lastWait = time.Second

// stop ends the actors from the last to the first. Each may use the rest of grace; one that takes longer is abandoned
// and named in the error.
func (g *group) stop(grace time.Duration) error {
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	var errs []error
	for _, r := range slices.Backward(g.actors) {
		r.cancel()
		select {
		case <-r.done:
		case <-deadline.C:
			errs = append(errs, fmt.Errorf("%s did not stop in time (%s for all)", r.name, grace))
			deadline.Reset(lastWait)
			continue
		}
		errs = append(errs, r.err)
	}
	return errors.Join(errs...)
}

// readiness is what /readyz answers from.
type readiness struct {
	checks   atomic.Pointer[[]Check] // nil while the parts are built
	waiting  atomic.Pointer[string]  // what the build waits for; nil = nothing
	stopping atomic.Bool
}
