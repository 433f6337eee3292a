package agentrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/retry"
	"github.com/agentbus/agentbus/pkg/transcript"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/agentbus/agentbus/services/agent-runner/internal/metrics"
)

const (
	// lookWait limits one read of users' aborts and steers: while the broker is away, the watch continues and nothing
	// can be written anyway.
	lookWait = 2 * time.Second
	// lookPause is the wait before it is tried again.
	lookPause = 200 * time.Millisecond
	// releaseWait bounds the note that a request is handed over.
	releaseWait = 2 * time.Second
)

// claim is a request that this runner has claimed.
type claim struct {
	runner   *Runner
	log      bus.LogID
	accepted record.Accepted
	index    int // of the request on its thread
	writer   *bus.Writer
	own      []event.Event   // the request's events so far, those of this claim included
	asked    bus.Commands    // what users have asked so far
	leave    <-chan struct{} // closed when the request is to be handed over; nil = never
}

// handle runs the request of a pointer to its end, and sends the pointer of the next one on the thread. It returns nil
// when the pointer is done: see bus.Handle for the meaning of errors.
func (r *Runner) handle(ctx context.Context, d *drain, start record.Start) error {
	accepted, err := r.accepted(ctx, start)
	if errors.Is(err, bus.ErrNotFound) {
		r.deps.Log.WarnContext(ctx, "dropped a pointer without an accepted request", "request", start.RequestID)
		return nil
	}
	if err != nil {
		return err
	}
	err = r.claim(ctx, accepted, start.Index, func(ctx context.Context, c *claim) error {
		err := c.run(ctx, d)
		if errors.Is(err, loop.ErrHandOver) || errors.Is(err, errDraining) {
			c.release(ctx)
			return bus.ErrHandOver
		}
		return err
	})
	if errors.Is(err, bus.ErrEnded) {
		err = r.ended(ctx, accepted)
	}
	if err != nil {
		return err
	}
	if _, err = r.queue().Next(ctx, accepted.Tenant, accepted.ThreadID, start.Index); err != nil {
		return err
	}
	return r.leaveTask(ctx, accepted)
}

// claim claims a request while do runs. The context of do ends when another runner has claimed the log.
func (r *Runner) claim(ctx context.Context, a record.Accepted, index int, do func(context.Context, *claim) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &claim{runner: r, log: bus.LogID{Tenant: a.Tenant, RequestID: a.RequestID}, accepted: a, index: index}
	opening := r.opening(a)
	writer, frames, err := r.deps.Bus.Claim(ctx, c.log, r.deps.Name, r.deps.Build, opening...)
	if errors.Is(err, bus.ErrTooLarge) { // accepted by a version that did not measure it: see claim.serve
		opening = r.reduced(a)
		writer, frames, err = r.deps.Bus.Claim(ctx, c.log, r.deps.Name, r.deps.Build, opening...)
	}
	if err != nil {
		return err
	}
	defer writer.Close()
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel(nil) // ends the watcher, and the writer even if the broker is away
	watchers.Go(func() {
		select {
		case <-writer.Lost():
			cancel(writer.Err())
		case <-ctx.Done():
		}
	})
	c.writer = writer
	if err := c.read(frames, opening); err != nil {
		return err
	}
	return do(ctx, c)
}

// release notes that the request is handed over, so that the next claim does not take it for a crash.
func (c *claim) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseWait)
	defer cancel()
	d := c.runner.deps
	err := c.writer.Emit(event.Claim{Epoch: c.writer.Epoch(), Runner: d.Name, Build: d.Build, Released: true})
	if err == nil {
		err = c.writer.Flush(ctx)
	}
	if err != nil {
		d.Log.WarnContext(ctx, "could not note that a request is handed over", "request", c.log.RequestID, "error", err)
	}
}

// accepted is the record of the request that start points at, which start may carry with it.
func (r *Runner) accepted(ctx context.Context, start record.Start) (record.Accepted, error) {
	if start.Accepted != nil {
		return *start.Accepted, nil
	}
	return r.deps.Bus.Accepted(ctx, bus.LogID{Tenant: start.Tenant, RequestID: start.RequestID})
}

// opening is the events that follow the first claim of a log.
func (r *Runner) opening(a record.Accepted) []event.Body { return a.Opening(r.answering(a)) }

// reduced is the opening of a log whose request is too large for it: without what the request brought.
func (r *Runner) reduced(a record.Accepted) []event.Body {
	return []event.Body{a.Metadata(r.answering(a))}
}

// answering names who answers a request where the request does not say it.
func (r *Runner) answering(a record.Accepted) (provider, model string) {
	agent, known := r.deps.Config.Agents[a.AgentID]
	if !known && r.remotes.hub != nil {
		agent.Backend = providerRemote
	}
	return agent.Backend, agent.Model
}

// isReduced reports whether a log began without what its request brought: see reduced.
func isReduced(log []event.Event) bool {
	has := func(name event.Name) bool {
		return slices.ContainsFunc(log, func(e event.Event) bool { return e.Body.Name() == name })
	}
	return has(event.NameMetadata) && !has(event.NameInput)
}

// read takes up the log as it was before the claim, the claim, and the opening that came with it into an empty log.
func (c *claim) read(frames []event.Frame, opening []event.Body) error {
	for _, f := range frames {
		events, err := f.Events()
		if err != nil {
			return fmt.Errorf("log of %s: %w", c.log.RequestID, err)
		}
		c.own = append(c.own, events...)
	}
	c.note(event.Claim{Epoch: c.writer.Epoch(), Runner: c.runner.deps.Name, Build: c.runner.deps.Build})
	if len(frames) > 0 {
		return nil
	}
	for _, body := range opening {
		c.note(body)
	}
	return nil
}

func (c *claim) note(body event.Body) {
	c.own = append(c.own, event.Event{RequestID: c.log.RequestID, Time: c.runner.deps.Bus.Now(), Body: body})
}

// run runs the agent, in a span. An abort cancels the run but not the writer, which must still write the end; so does the
// end of the process.
func (c *claim) run(ctx context.Context, d *drain) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.cut, func() { cancel(errDraining) })() //nolint:contextcheck // d says when, and no more
	ctx, end := c.runner.meters.Invoke(ctx, metrics.Request{
		Tenant: c.log.Tenant, Agent: c.accepted.AgentID, ThreadID: c.accepted.ThreadID, RequestID: c.log.RequestID,
	})
	stop, err := c.runner.deps.Bus.WatchAbort(ctx, c.log, func(a record.Abort) {
		if !weaken.Without(weaken.LastLook) {
			cancel(&loop.Abort{Reason: a.Reason})
		}
	})
	if err != nil {
		end("left", "", err)
		return err
	}
	defer stop()
	request := c.request()
	request.Leave, c.leave = d.leave, d.leave
	err = c.serve(ctx, &request)
	how := status(request.State, err)
	if how == handedOver {
		end(how, "", nil)
		return err
	}
	end(how, request.State.Failure(), err)
	if err != nil {
		return err
	}
	return c.abandonAll(ctx, request.State)
}

// request is what every end of a request needs.
func (c *claim) request() loop.Request {
	return loop.Request{
		RequestID: c.log.RequestID, ThreadID: c.accepted.ThreadID, UserID: c.accepted.Owner,
		Epoch: c.writer.Epoch(), State: new(transcript.State), Log: c.writer, Asked: c.look, Logger: c.runner.deps.Log,
		Now: c.runner.deps.Bus.Now,
	}
}

// serve fills request and runs it.
func (c *claim) serve(ctx context.Context, request *loop.Request) error {
	r := c.runner
	refuse := func(cause error) error {
		request.State.Fold(c.own...)
		return loop.Refuse(ctx, *request, cause)
	}
	if isReduced(c.own) { // also where another runner has claimed it before
		return refuse(apierr.New(apierr.MessageTooLarge, "the request is too large to be stored in its log; send large files by url"))
	}
	agent, thread, err := c.prepare(ctx)
	if err != nil {
		return refuse(err)
	}
	if request.Agent, err = r.forRequest(agent, c.accepted.Request); err != nil {
		return refuse(err)
	}
	request.State = thread
	request.Backend = withSight(agent.backend, c.objects())
	request.Tools = c.dispatcher(request.Agent)
	request.Agents = agents{c.dispatcher(request.Agent), r.deps.Config.Agents[request.Agent.Name].Agents}
	request.Objects = c.objects()
	request.Actions = actions{c}
	request.Price = r.price(request.Agent)
	request.Suits = r.customs.suits
	return loop.Run(ctx, *request)
}

// prepare loads the data that a request needs to begin. It retries until the request's time is over: a dependency that
// is down does not end the request earlier.
func (c *claim) prepare(ctx context.Context) (found agent, thread *transcript.State, err error) {
	ctx, cancel := c.inTime(ctx)
	defer cancel()
	err = c.persist(ctx, "its agent", func(ctx context.Context) (err error) {
		found, err = c.runner.agentOf(ctx, c.accepted)
		return err
	})
	if err != nil {
		return found, nil, err
	}
	var earlier []event.Event
	err = c.persist(ctx, "the earlier messages of its thread", func(ctx context.Context) (err error) {
		earlier, err = c.earlier(ctx)
		return err
	})
	if err != nil {
		return found, nil, err
	}
	thread = new(transcript.State)
	thread.Fold(earlier...)
	c.forget(ctx, thread.Actions())
	thread.Fold(c.own...)
	err = thread.Load(ctx, c.objects())
	if errors.Is(err, bus.ErrDamaged) {
		err = apierr.Wrap(err, apierr.Unavailable, "the thread's tool results could not be read; try again")
	}
	return found, thread, err
}

// look returns users' aborts and steers. A running request retries until the broker answers: it must not end as if
// there were no abort.
func (c *claim) look(ctx context.Context) (*loop.Abort, []loop.Steer) {
	var more bus.Commands
	err := retry.Policy{First: lookPause, Failed: func(err error, _ time.Duration) {
		c.runner.deps.Log.WarnContext(ctx, "could not look for commands", "request", c.log.RequestID, "error", err)
	}}.Do(ctx, func(ctx context.Context) (err error) {
		more, err = c.lookOnce(ctx)
		return err
	})
	if err == nil {
		c.asked.Sequence = more.Sequence
		c.asked.Steers = append(c.asked.Steers, more.Steers...)
	}
	if more.Abort != nil {
		c.asked.Abort = more.Abort
	}
	steers := make([]loop.Steer, len(c.asked.Steers))
	for i, s := range c.asked.Steers {
		steers[i] = loop.Steer{ID: s.SteerID, Messages: s.Messages}
	}
	if c.asked.Abort == nil || weaken.Without(weaken.LastLook) {
		return nil, steers
	}
	return &loop.Abort{Reason: c.asked.Abort.Reason}, steers
}

func (c *claim) lookOnce(ctx context.Context) (bus.Commands, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWait)
	defer cancel()
	return c.runner.deps.Bus.Commands(ctx, c.log, c.asked.Sequence)
}

const handedOver = "handed_over"

// status says how a request left the runner.
func status(s *transcript.State, err error) string {
	switch {
	case errors.Is(err, bus.ErrFenced):
		return "fenced"
	case errors.Is(err, loop.ErrHandOver), errors.Is(err, errDraining):
		return handedOver
	case err != nil:
		return "left"
	default:
		return string(s.Terminal())
	}
}
