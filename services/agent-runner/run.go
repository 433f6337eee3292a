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
	index    int // of the request on its thread
	writer   *bus.Writer
	own      []event.Event // the request's events so far, those of this claim included
}

// handle takes the request that start points at to its end. It returns nil when the pointer is done with: see
// bus.Handle for what errors mean. cancel cancels ctx.
func (r *Runner) handle(ctx context.Context, cancel context.CancelCauseFunc, start command.Start) error {
	log := bus.LogID{Tenant: start.Tenant, RequestID: start.RequestID}
	accepted, err := r.accepted(ctx, start)
	if errors.Is(err, bus.ErrNotFound) {
		r.deps.Log.WarnContext(ctx, "dropped a pointer to a request that nobody accepted", "request", start.RequestID)
		return nil
	}
	if err != nil {
		return err
	}
	opening := opening(accepted)
	writer, frames, err := r.deps.Bus.Claim(ctx, log, r.deps.Name, r.deps.Build, opening...)
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

	c := &claim{runner: r, log: log, accepted: accepted, index: start.Index, writer: writer}
	if err := c.read(frames, opening); err != nil {
		return err
	}
	return c.run(ctx)
}

// accepted is the record of the request that start points at, which start may carry with it.
func (r *Runner) accepted(ctx context.Context, start command.Start) (command.Accepted, error) {
	if start.Accepted != nil {
		return *start.Accepted, nil
	}
	return r.deps.Bus.Accepted(ctx, bus.LogID{Tenant: start.Tenant, RequestID: start.RequestID})
}

// opening is what a log starts with, behind its first claim.
func opening(a command.Accepted) []event.Body {
	return []event.Body{
		event.Input{
			ThreadID: a.ThreadID, AgentID: a.AgentID,
			Messages: a.Request.Messages, ActionResults: a.Request.Context.ActionResults,
		},
		event.Metadata{ThreadID: a.ThreadID, AgentID: a.AgentID, ProtocolVersion: event.Protocol},
	}
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
