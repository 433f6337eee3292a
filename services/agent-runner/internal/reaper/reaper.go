// Package reaper ensures that every request ends, whatever process has crashed: it watches for aborts of requests
// without a runner, and it sweeps over requests that have not ended and are quiet. Every runner has one. Reapers need
// no coordination, because a claim decides all conflicts.
package reaper

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/telemetry"
)

// Bus reads and moves the records of requests. It is implemented by *bus.Bus.
type Bus interface {
	WatchAborts(ctx context.Context, found func(tenant string, a record.Abort)) error
	Accepted(ctx context.Context, log bus.LogID) (record.Accepted, error)
	Aborted(ctx context.Context, log bus.LogID) (record.Abort, error)
	Last(ctx context.Context, log bus.LogID) (event.Frame, error)
	Read(ctx context.Context, log bus.LogID, from uint64) iter.Seq2[event.Frame, error]
	// AdvanceBacklog moves the pointers of a page of the backlog that their senders have left there; it returns 0 after
	// the last page.
	AdvanceBacklog(ctx context.Context, from uint64) (next uint64, err error)
	Now() time.Time // by the clock that stamps frames: this process' own may be wrong
}

// History lists the requests that have not ended. It is implemented by historyapi.Client.
type History interface {
	Open(ctx context.Context, q historyapi.OpenQuery) (historyapi.OpenPage, error)
}

// Requests has the operations on one request. Each is safe if other processes run it concurrently.
type Requests interface {
	// Conclude claims a request and ends it with cause, or with the abort that came first.
	Conclude(ctx context.Context, a record.Accepted, cause error) error
	// Time is how long a request of an agent may take.
	Time(agentID string) time.Duration
}

// Queue sends missing pointers. A *threadqueue.Queue is one.
type Queue interface {
	// Next sends the pointer to the request of a thread that may start, if it lacks one.
	Next(ctx context.Context, tenant, threadID string, index int) (sent bool, err error)
	// EnsurePointer sends the pointer to a request that a runner has begun, if it lacks one.
	EnsurePointer(ctx context.Context, a record.Accepted) (sent bool, err error)
}

// What the reaper did, for Deps.Count.
const (
	Aborted  = "aborted"   // ended an aborted request without a runner
	TimedOut = "timed_out" // ended a request that was past its time
	Pointed  = "pointed"   // sent a pointer that was missing
	Failed   = "failed"    // could not check a request, or list them
)

// Deps are the dependencies of a reaper.
type Deps struct {
	Bus      Bus
	History  History
	Requests Requests
	Queue    Queue
	Count    func(ctx context.Context, what string)
	Log      *slog.Logger
	Every    time.Duration // between two sweeps
}

const (
	// abortGrace is how long a runner may take to receive an abort and to write the end. After that, the request has no
	// runner.
	abortGrace = 30 * time.Second
	// abortDelay is the time between an abort and the check whether a runner works on the request. Each reaper adds a random
	// part, so that usually only one of them has to act.
	abortDelay = time.Second
	// backlog limits the aborts that wait for that check. Sweeps find those beyond it.
	backlog = 1024
	// abortWorkers is how many of them are checked concurrently.
	abortWorkers = 4
	// pageSize and sweepPages limit a sweep. The next one continues at its end.
	pageSize   = 200
	sweepPages = 10
	// requestTimeout limits the work on one request.
	requestTimeout = 20 * time.Second
)

// Reaper is the reaper of one process.
type Reaper struct {
	deps          Deps
	aborts        chan pendingAbort
	delay         time.Duration
	cursor        string // where the next sweep continues
	backlogCursor uint64 // and where in the backlog
}

// pendingAbort is an abort, and the time to check its result.
type pendingAbort struct {
	log   bus.LogID
	abort record.Abort
	due   time.Time
}

// New returns a reaper.
func New(d Deps) *Reaper {
	return &Reaper{
		deps: d, aborts: make(chan pendingAbort, backlog),
		delay: abortDelay + rand.N(abortDelay), //nolint:gosec // no secret
	}
}

// Run works until ctx is done.
func (r *Reaper) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { r.watchAborts(ctx) })
	for range abortWorkers {
		work.Go(func() { r.handleAborts(ctx) })
	}
	for pause(ctx, r.deps.Every/2+rand.N(r.deps.Every)) { //nolint:gosec // no secret
		r.sweep(ctx)
	}
}

// watchAborts stores aborts as they arrive.
func (r *Reaper) watchAborts(ctx context.Context) {
	note := func(tenant string, a record.Abort) {
		h := pendingAbort{bus.LogID{Tenant: tenant, RequestID: a.RequestID}, a, time.Now().Add(r.delay)}
		select {
		case r.aborts <- h:
		default: // the sweep will find it
		}
	}
	for ctx.Err() == nil {
		if err := r.deps.Bus.WatchAborts(ctx, note); err != nil {
			r.failed(ctx, "watch aborts", err)
			pause(ctx, r.deps.Every)
		}
	}
}

// handleAborts ends the aborted requests that no runner has begun.
func (r *Reaper) handleAborts(ctx context.Context) {
	for {
		select {
		case h := <-r.aborts:
			if !pause(ctx, time.Until(h.due)) {
				return
			}
			if err := r.abortUnclaimed(ctx, h); err != nil {
				r.failed(ctx, "end aborted request "+h.log.RequestID, err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (r *Reaper) abortUnclaimed(ctx context.Context, h pendingAbort) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := r.deps.Bus.Last(ctx, h.log)
	if !errors.Is(err, bus.ErrNotFound) {
		return err
	}
	accepted, err := r.deps.Bus.Accepted(ctx, h.log)
	if errors.Is(err, bus.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.abort(ctx, accepted, h.abort)
}

// abort ends a request that was aborted.
func (r *Reaper) abort(ctx context.Context, a record.Accepted, asked record.Abort) error {
	return r.conclude(ctx, Aborted, a, &loop.Abort{Reason: asked.Reason})
}

// conclude ends a request. It first ensures that the queue has a pointer: no sweep returns to a request that has ended,
// so if this process crashes, or cannot do the work that follows the end, a runner does it.
func (r *Reaper) conclude(ctx context.Context, what string, a record.Accepted, cause error) error {
	if _, err := r.deps.Queue.EnsurePointer(ctx, a); err != nil {
		return err
	}
	err := r.deps.Requests.Conclude(ctx, a, cause)
	if errors.Is(err, bus.ErrFenced) {
		return nil // another process handles it
	}
	if err == nil {
		r.deps.Count(ctx, what)
		r.deps.Log.InfoContext(ctx, "ended a request without a runner", telemetry.LogRequest, a.RequestID, "why", what)
	}
	return err
}

func (r *Reaper) failed(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	r.deps.Count(ctx, Failed)
	r.deps.Log.WarnContext(ctx, "the reaper could not "+what, "error", err)
}

// pause waits, and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
