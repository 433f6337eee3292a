package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/eventlog"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/threadqueue"
)

// simTenant is whose requests all are.
const simTenant = "t"

// simRunner is a model of the agent-runner: it does with the bus what that does, in the same order, and thinks less.
type simRunner struct {
	*simProcess
	world *simWorld
}

// simRun is one claim of a runner.
type simRun struct {
	*simRunner
	log     broker.LogID
	plan    simPlan
	writer  *eventlog.Writer
	aborted chan struct{} // closed when the watch has found an abort
	asked   uint64        // sequence of the newest command that was read
	stop    bool          // one of them is an abort

	// What the log says.
	n      uint64 // of the next event
	steps  int
	steers map[string]bool
	tools  map[string]bool
}

// handle takes a request to its end, and starts the one behind it on its thread.
func (r *simRunner) handle(ctx context.Context, start record.Start) error {
	accepted, err := r.accepted(ctx, start)
	if errors.Is(err, broker.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	err = r.run(ctx, accepted)
	if err != nil && !errors.Is(err, broker.ErrEnded) {
		return err
	}
	_, err = r.queue().Next(ctx, simTenant, accepted.ThreadID, start.Index)
	return err
}

func (r *simRunner) accepted(ctx context.Context, start record.Start) (record.Accepted, error) {
	if start.Accepted != nil {
		return *start.Accepted, nil
	}
	return r.bus.Accepted(ctx, broker.LogID{Tenant: start.Tenant, RequestID: start.RequestID})
}

func (r *simRunner) queue() *threadqueue.Queue { return threadqueue.New(r.bus, time.Now) }

// run claims the request and works on it until its terminal event is stored.
func (r *simRunner) run(ctx context.Context, accepted record.Accepted) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run, err := r.claim(ctx, accepted)
	if err != nil {
		return err
	}
	defer run.writer.Close()
	defer cancel(nil)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() {
		select {
		case <-run.writer.Lost():
			cancel(run.writer.Err())
		case <-ctx.Done():
		}
	})
	stop, err := r.bus.WatchAbort(ctx, run.log, func(record.Abort) { close(run.aborted) })
	if err != nil {
		return err
	}
	defer stop()
	if err = run.work(ctx); err != nil {
		r.world.left(run)
	}
	return err
}

func (r *simRunner) claim(ctx context.Context, accepted record.Accepted) (*simRun, error) {
	run := &simRun{
		simRunner: r, log: broker.LogID{Tenant: accepted.Tenant, RequestID: accepted.RequestID}, plan: r.world.plans[accepted.RequestID],
		aborted: make(chan struct{}), steers: map[string]bool{}, tools: map[string]bool{},
	}
	opening := []event.Body{
		event.Input{ThreadID: accepted.ThreadID, AgentID: accepted.AgentID, Messages: accepted.Request.Messages},
		event.Metadata{ThreadID: accepted.ThreadID, AgentID: accepted.AgentID},
	}
	writer, frames, err := r.bus.Claim(ctx, run.log, r.name, "", opening...)
	if err != nil {
		return nil, err
	}
	run.writer = writer
	for _, f := range frames {
		events, err := f.Events()
		if err != nil {
			return nil, fmt.Errorf("log of %s: %w", run.log.RequestID, err)
		}
		for _, e := range events {
			run.fold(e.Body)
		}
	}
	run.n++
	if len(frames) == 0 {
		run.n += uint64(len(opening))
	} else {
		r.cluster.note("takeover")
	}
	return run, nil
}

func (r *simRun) fold(body event.Body) {
	r.n++
	switch b := body.(type) {
	case event.Custom:
		r.steps++
	case event.Input:
		r.steers[b.SteerID] = true
	case event.ToolOutput:
		r.tools[b.ToolCallID] = true
	}
}

// work does what the log lacks, step by step. Before each it looks for what users ask.
func (r *simRun) work(ctx context.Context) error {
	for {
		select {
		case <-r.aborted:
			return r.end(ctx, event.Aborted{})
		default:
		}
		more, err := r.listen(ctx)
		if err != nil {
			return err
		}
		if r.stop {
			return r.end(ctx, event.Aborted{})
		}
		switch {
		case r.steps < r.plan.steps:
			err = r.step(ctx)
		case more:
		case r.plan.tool != "" && !r.tools[r.plan.tool]:
			err = r.call(ctx, r.plan.tool)
		default:
			return r.end(ctx, event.Done{})
		}
		if err != nil {
			return err
		}
	}
}

func (r *simRun) step(ctx context.Context) error {
	luck := r.cluster.dice.at("think", r.name, r.log.RequestID, fmt.Sprint(r.n))
	if err := r.think(ctx, spell(luck, 10*time.Millisecond, r.plan.think+20*time.Millisecond)); err != nil {
		return err
	}
	if err := r.emit(event.Custom{Type: fmt.Sprintf("step-%d", r.steps)}); err != nil {
		return err
	}
	if luck.IntN(2) == 0 {
		return r.Flush(ctx)
	}
	return nil
}

// think waits like a model, unless the request is aborted.
func (r *simRun) think(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.aborted:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listen looks for what users ask, writes the steers that are new into the log, and reports whether there were any.
func (r *simRun) listen(ctx context.Context) (heard bool, err error) {
	at := time.Now()
	asked, err := r.bus.CommandsAfter(ctx, r.log, r.asked)
	if err != nil {
		return false, r.cause(ctx, err)
	}
	r.asked, r.stop = asked.Sequence, r.stop || asked.Abort != nil
	for _, s := range asked.Steers {
		if r.steers[s.SteerID] {
			continue
		}
		heard = true
		if err := r.emit(event.Input{SteerID: s.SteerID, Messages: s.Messages}); err != nil {
			return heard, err
		}
	}
	r.world.listened(r.log, r.writer.Epoch(), at)
	return heard, nil
}

// cause is why ctx was cancelled, if it was.
func (r *simRun) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (r *simRun) emit(body event.Body) error {
	if err := r.writer.Emit(body); err != nil {
		return err
	}
	r.fold(body)
	return nil
}

func (r *simRun) Flush(ctx context.Context) error {
	n := r.n
	if err := r.writer.Flush(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	r.world.acknowledged(r.log, n, r.writer.Epoch())
	return nil
}

// call has an executor run a tool, and writes what came of it.
func (r *simRun) call(ctx context.Context, callID string) error {
	wait, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := r.Flush(ctx); err != nil { // the call before its effect
		return err
	}
	c := record.ToolCall{Tenant: simTenant, RequestID: r.log.RequestID, ToolCallID: callID, Tool: "tool"}
	if err := r.bus.CallTool(wait, "builtin", c); err != nil {
		return r.cause(ctx, err)
	}
	result, err := r.bus.AwaitToolResult(wait, r.log, callID, func(record.ToolProgress) {})
	if err != nil {
		return r.cause(ctx, err)
	}
	return r.emit(event.ToolOutput{ToolCallID: callID, Status: result.Status, Content: result.Content})
}

// end stores the terminal event.
func (r *simRun) end(ctx context.Context, terminal event.Body) error {
	op := r.world.begin(registerEnd, r.log.RequestID, r.name+"/"+string(terminal.Name()), "")
	if err := r.emit(terminal); err != nil {
		op.fails(errors.Is(err, broker.ErrFenced))
		return err
	}
	err := r.Flush(ctx)
	if err != nil {
		op.fails(errors.Is(err, broker.ErrFenced))
		return err
	}
	op.stores()
	return nil
}

// simExecutor is a model of the tool-executor, with a tool that must not run twice.
type simExecutor struct {
	*simProcess
	world *simWorld
}

func (e *simExecutor) handle(ctx context.Context, c record.ToolCall) error {
	log := broker.LogID{Tenant: c.Tenant, RequestID: c.RequestID}
	_, err := e.bus.ToolResult(ctx, log, c.ToolCallID)
	if !errors.Is(err, broker.ErrNotFound) {
		return err
	}
	op := e.world.begin(registerFirst, "started/"+c.ToolCallID, e.name+time.Now().String(), "")
	started := record.ToolStarted{ToolCallID: c.ToolCallID, Executor: op.input.value}
	stored, first, err := e.bus.PutToolStarted(ctx, log, started)
	op.returns(stored.Executor, first, err)
	if err != nil {
		return err
	}
	result := record.ToolResult{ToolCallID: c.ToolCallID, Status: event.ToolUnknown, Content: op.input.value}
	if first {
		e.world.effect(c.ToolCallID)
		if err := broker.Pause(ctx, e.world.plans[c.RequestID].think); err != nil {
			return err
		}
		result.Status = event.ToolSuccess
	}
	op = e.world.begin(registerFirst, "result/"+c.ToolCallID, result.Content+"/"+string(result.Status), "")
	kept, first, err := e.bus.PutToolResult(ctx, log, result)
	op.returns(strings.Trim(kept.Content+"/"+string(kept.Status), "/"), first, err)
	return err
}
