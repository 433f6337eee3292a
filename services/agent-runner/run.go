package agentrunner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/services/agent-runner/internal/loop"
	"github.com/agentbus/agentbus/services/agent-runner/internal/measure"
	"github.com/agentbus/agentbus/services/agent-runner/internal/transcript"
)

// abortWait bounds one look for an abort: while the broker is away, the watch goes on and nothing can be written anyway.
const abortWait = 2 * time.Second

// claim is a request that this runner has claimed.
type claim struct {
	runner   *Runner
	log      bus.LogID
	accepted command.Accepted
	writer   *bus.Writer
	own      []event.Event // the request's events so far, those of this claim included
}

// handle takes the request that start points at to its end. It returns nil when the pointer is done with: see
// bus.Handle for what errors mean. cancel cancels ctx.
func (r *Runner) handle(ctx context.Context, cancel context.CancelCauseFunc, start command.Start) error {
	log := bus.LogID{Tenant: start.Tenant, RequestID: start.RequestID}
	accepted, err := r.deps.Bus.Accepted(ctx, log)
	if errors.Is(err, bus.ErrNotFound) {
		r.deps.Log.WarnContext(ctx, "dropped a pointer to a request that nobody accepted", "request", start.RequestID)
		return nil
	}
	if err != nil {
		return err
	}
	writer, frames, err := r.deps.Bus.Claim(ctx, log, r.deps.Name, r.deps.Build)
	if errors.Is(err, bus.ErrEnded) {
		return nil
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

	c := &claim{runner: r, log: log, accepted: accepted, writer: writer}
	if err := c.read(frames); err != nil {
		return err
	}
	return c.run(ctx)
}

// read takes up the log as it was before the claim, and the claim.
func (c *claim) read(frames []event.Frame) error {
	for _, f := range frames {
		events, err := f.Events()
		if err != nil {
			return fmt.Errorf("log of %s: %w", c.log.RequestID, err)
		}
		c.own = append(c.own, events...)
	}
	c.note(event.Claim{Epoch: c.writer.Epoch(), Runner: c.runner.deps.Name, Build: c.runner.deps.Build})
	return nil
}

func (c *claim) note(body event.Body) {
	c.own = append(c.own, event.Event{RequestID: c.log.RequestID, Time: time.Now(), Body: body})
}

// run runs the agent, in a span. An abort cancels the run but not the writer, which must still write the end.
func (c *claim) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, end := c.runner.meters.Invoke(ctx, measure.Request{
		Tenant: c.log.Tenant, Agent: c.accepted.AgentID, ThreadID: c.accepted.ThreadID, RequestID: c.log.RequestID,
	})
	stop, err := c.runner.deps.Bus.WatchAbort(ctx, c.log, func(a command.Abort) { cancel(&loop.Abort{Reason: a.Reason}) })
	if err != nil {
		end("left", err)
		return err
	}
	defer stop()
	request := loop.Request{
		RequestID: c.log.RequestID, ThreadID: c.accepted.ThreadID, Epoch: c.writer.Epoch(), State: new(transcript.State),
		Log: c.writer, Aborted: c.aborted, Logger: c.runner.deps.Log,
	}
	err = c.serve(ctx, &request)
	end(status(request.State, err), err)
	return err
}

// serve fills request and runs it.
func (c *claim) serve(ctx context.Context, request *loop.Request) error {
	if err := c.open(); err != nil {
		return err
	}
	r := c.runner
	refuse := func(cause error) error {
		request.State.Fold(c.own...)
		return loop.Refuse(ctx, *request, cause)
	}
	agent, ok := r.agents[c.accepted.AgentID]
	if !ok {
		return refuse(fault.New(fault.AgentNotFound, "there is no agent %.64q any more", c.accepted.AgentID))
	}
	earlier, err := c.earlier(ctx)
	if err != nil {
		return refuse(err)
	}
	if request.Agent, err = agent.forRequest(c.accepted.Request); err != nil {
		return refuse(err)
	}
	thread := new(transcript.State)
	thread.Fold(earlier...)
	c.forget(ctx, thread.Actions())
	thread.Fold(c.own...)
	if err := thread.Load(ctx, objects{r.deps.Bus}); err != nil {
		return refuse(fault.Wrap(err, fault.Unavailable, "the thread's tool results could not be read; try again"))
	}
	request.State = thread
	request.Backend = agent.backend
	request.Tools = c.dispatcher(request.Agent)
	request.Objects = r.deps.Bus
	request.Actions = actions{c}
	request.Price = r.price(request.Agent)
	return loop.Run(ctx, *request)
}

// open writes what every log starts with, unless an earlier runner did.
func (c *claim) open() error {
	var has transcript.State
	has.Fold(c.own...)
	var bodies []event.Body
	if !has.Heard() {
		bodies = append(bodies, event.Input{
			ThreadID: c.accepted.ThreadID, AgentID: c.accepted.AgentID,
			Messages: c.accepted.Request.Messages, ActionResults: c.accepted.Request.Context.ActionResults,
		})
	}
	if !has.Opened() {
		bodies = append(bodies, event.Metadata{
			ThreadID: c.accepted.ThreadID, AgentID: c.accepted.AgentID, ProtocolVersion: event.Protocol,
		})
	}
	for _, body := range bodies {
		if err := c.writer.Emit(body); err != nil {
			return err
		}
		c.note(body)
	}
	return nil
}

// aborted looks for the abort of the request.
func (c *claim) aborted(ctx context.Context) *loop.Abort {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWait)
	defer cancel()
	a, err := c.runner.deps.Bus.Aborted(ctx, c.log)
	if err == nil {
		return &loop.Abort{Reason: a.Reason}
	}
	if !errors.Is(err, bus.ErrNotFound) {
		c.runner.deps.Log.WarnContext(ctx, "could not look for an abort", "request", c.log.RequestID, "error", err)
	}
	return nil
}

// status says how a request left the runner.
func status(s *transcript.State, err error) string {
	switch {
	case errors.Is(err, bus.ErrFenced):
		return "fenced"
	case err != nil:
		return "left"
	default:
		return string(s.Terminal())
	}
}
