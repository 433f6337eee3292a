package agentrunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/retry"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/pkg/transcript"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/agentbus/agentbus/services/agent-runner/internal/metrics"
)

const (
	// commandsTimeout limits one read of users' aborts and steers: while the broker is away, the watch continues and nothing
	// can be written anyway.
	commandsTimeout = 2 * time.Second
	// commandsPause is the pause before the next attempt.
	commandsPause = 200 * time.Millisecond
	// releaseTimeout limits the append of the released claim.
	releaseTimeout = 2 * time.Second
)

// claim is a request that this runner has claimed.
type claim struct {
	runner   *Runner
	log      bus.LogID
	accepted record.Accepted
	index    int // of the request on its thread
	writer   *bus.Writer
	events   []event.Event   // the request's events so far, those of this claim included
	context  json.RawMessage // of the request
	commands bus.CommandList // aborts and steers of users so far
	handOver <-chan struct{} // closed when the request is to be handed over; nil = never
}

// handle runs the request of a pointer to its end, and sends the pointer of the next one on the thread. It returns nil
// when the pointer is done: see bus.Handle for the meaning of errors.
func (r *Runner) handle(ctx context.Context, d *drain, start record.Start) error {
	accepted, err := r.accepted(ctx, start)
	if errors.Is(err, bus.ErrNotFound) {
		r.deps.Log.WarnContext(ctx, "dropped a pointer without an accepted request", telemetry.LogRequest, start.RequestID)
		return nil
	}
	if err != nil {
		return err
	}
	err = r.claim(ctx, accepted, start.Index, func(ctx context.Context, c *claim) error {
		err := c.run(ctx, d)
		if errors.Is(err, loop.ErrHandOver) || errors.Is(err, errDraining) {
			c.markReleased(ctx)
			return bus.ErrHandOver
		}
		return err
	})
	if errors.Is(err, bus.ErrEnded) {
		err = r.abortChildrenOf(ctx, accepted)
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

// markReleased appends a released claim, so that the next claim is not counted as one after a crash.
func (c *claim) markReleased(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	d := c.runner.deps
	err := c.writer.Emit(event.Claim{Epoch: c.writer.Epoch(), Runner: d.Name, Build: d.Build, Released: true})
	if err == nil {
		err = c.writer.Flush(ctx)
	}
	if err != nil {
		d.Log.WarnContext(ctx, "could not mark a request as handed over", telemetry.LogRequest, c.log.RequestID, "error", err)
	}
}

// accepted returns the accept record of the pointer's request, which the pointer may contain.
func (r *Runner) accepted(ctx context.Context, start record.Start) (record.Accepted, error) {
	if start.Accepted != nil {
		return *start.Accepted, nil
	}
	return r.deps.Bus.Accepted(ctx, bus.LogID{Tenant: start.Tenant, RequestID: start.RequestID})
}

// opening returns the events that follow the first claim of a log.
func (r *Runner) opening(a record.Accepted) []event.Body { return a.Opening(r.modelOf(a)) }

// reduced returns the opening of a log whose request is too large for it: metadata without the input.
func (r *Runner) reduced(a record.Accepted) []event.Body {
	return []event.Body{a.Metadata(r.modelOf(a))}
}

// modelOf returns the backend and model of a request's agent.
func (r *Runner) modelOf(a record.Accepted) (provider, model string) {
	agent, known := r.deps.Config.Agents[a.AgentID]
	if !known && r.remotes.hub != nil {
		agent.Backend = config.BackendRemote
	}
	return agent.Backend, agent.Model
}

// isReduced reports whether a log starts without its input: see reduced.
func isReduced(log []event.Event) bool {
	has := func(name event.Name) bool {
		return slices.ContainsFunc(log, func(e event.Event) bool { return e.Body.Name() == name })
	}
	return has(event.NameMetadata) && !has(event.NameInput)
}

// read stores the events before the claim, the claim, and, for an empty log, the opening that was appended with it.
func (c *claim) read(frames []event.Frame, opening []event.Body) error {
	for _, f := range frames {
		events, err := f.Events()
		if err != nil {
			return fmt.Errorf("log of %s: %w", c.log.RequestID, err)
		}
		c.events = append(c.events, events...)
	}
	c.appendEvent(event.Claim{Epoch: c.writer.Epoch(), Runner: c.runner.deps.Name, Build: c.runner.deps.Build})
	if len(frames) > 0 {
		return nil
	}
	for _, body := range opening {
		c.appendEvent(body)
	}
	return nil
}

func (c *claim) appendEvent(body event.Body) {
	c.events = append(c.events, event.Event{RequestID: c.log.RequestID, Time: c.runner.deps.Bus.Now(), Body: body})
}

// run runs the agent, in a span. An abort cancels the run but not the writer, which must still write the end; so does the
// end of the process.
func (c *claim) run(ctx context.Context, d *drain) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.cancelled, func() { cancel(errDraining) })() //nolint:contextcheck // d only signals
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
	request.HandOver, c.handOver = d.handOver, d.handOver
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
	return c.abortChildren(ctx, request.State)
}

// request returns the part of a loop.Request that ending it needs.
func (c *claim) request() loop.Request {
	return loop.Request{
		RequestID: c.log.RequestID, ThreadID: c.accepted.ThreadID, UserID: c.accepted.Owner,
		Epoch: c.writer.Epoch(), State: new(transcript.State), Log: c.writer, ReadCommands: c.readCommands, Logger: c.runner.deps.Log,
		Now: c.runner.deps.Bus.Now,
	}
}

// serve fills request and runs it.
func (c *claim) serve(ctx context.Context, request *loop.Request) error {
	r := c.runner
	refuse := func(cause error) error {
		request.State.Fold(c.events...)
		return loop.Refuse(ctx, *request, cause)
	}
	if isReduced(c.events) { // also if another runner has claimed it before
		return refuse(apierr.New(apierr.MessageTooLarge, "the request is too large to be stored in its log; send large files by url"))
	}
	agent, thread, err := c.prepare(ctx)
	if err != nil {
		return refuse(err)
	}
	if request.Agent, err = r.forRequest(agent, c.accepted.Request.Context.Model, thread.Settings()); err != nil {
		return refuse(err)
	}
	request.State = thread
	c.context = thread.Settings().Context
	request.Backend = withInlineMedia(agent.backend, c.objects())
	request.Tools = c.dispatcher(request.Agent)
	request.Agents = subagents{c.dispatcher(request.Agent), r.deps.Config.Agents[request.Agent.Name].Agents}
	request.Objects = c.objects()
	request.Actions = actions{c}
	request.Price = r.price
	request.ValidateCustom = r.customs.validate
	return loop.Run(ctx, *request)
}

// prepare loads the data that a request needs to begin. It retries until the request's time is over: a dependency that
// is down does not end the request earlier.
func (c *claim) prepare(ctx context.Context) (found agent, thread *transcript.State, err error) {
	ctx, cancel := c.withTimeLimit(ctx)
	defer cancel()
	err = c.retry(ctx, "its agent", func(ctx context.Context) (err error) {
		found, err = c.runner.agentOf(ctx, c.accepted)
		return err
	})
	if err != nil {
		return found, nil, err
	}
	var earlier []event.Event
	err = c.retry(ctx, "the earlier messages of its thread", func(ctx context.Context) (err error) {
		earlier, err = c.earlier(ctx)
		return err
	})
	if err != nil {
		return found, nil, err
	}
	thread = new(transcript.State)
	thread.Fold(earlier...)
	c.forget(ctx, thread.Actions())
	thread.Fold(c.events...)
	err = thread.Load(ctx, c.objects())
	if errors.Is(err, bus.ErrDamaged) {
		err = apierr.Wrap(err, apierr.Unavailable, "the thread's tool results could not be read; try again")
	}
	return found, thread, err
}

// readCommands returns users' aborts and steers. A running request retries until the broker answers: it must not end as if
// there were no abort.
func (c *claim) readCommands(ctx context.Context) (*loop.Abort, []loop.Steer) {
	var more bus.CommandList
	err := retry.Policy{First: commandsPause, Failed: func(err error, _ time.Duration) {
		c.runner.deps.Log.WarnContext(ctx, "could not read commands", telemetry.LogRequest, c.log.RequestID, "error", err)
	}}.Do(ctx, func(ctx context.Context) (err error) {
		more, err = c.readCommandsOnce(ctx)
		return err
	})
	if err == nil {
		c.commands.Sequence = more.Sequence
		c.commands.Steers = append(c.commands.Steers, more.Steers...)
	}
	if more.Abort != nil {
		c.commands.Abort = more.Abort
	}
	steers := make([]loop.Steer, len(c.commands.Steers))
	for i, s := range c.commands.Steers {
		steers[i] = loop.Steer{ID: s.SteerID, Messages: s.Messages}
	}
	if c.commands.Abort == nil || weaken.Without(weaken.LastLook) {
		return nil, steers
	}
	return &loop.Abort{Reason: c.commands.Abort.Reason}, steers
}

func (c *claim) readCommandsOnce(ctx context.Context) (bus.CommandList, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandsTimeout)
	defer cancel()
	return c.runner.deps.Bus.CommandsAfter(ctx, c.log, c.commands.Sequence)
}

const handedOver = "handed_over"

// status returns how a request left the runner, for the metric.
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
