package toolexecutor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/retry"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/output"
	"github.com/agentbus/agentbus/pkg/weaken"
)

// errAborted is why a call is cut off whose request was aborted.
var errAborted = errors.New("the request was aborted")

// job is a call, and the tool that it is for.
type job struct {
	record.ToolCall
	log  bus.LogID
	tool tool.Tool // nil without a tool of that name
	spec tool.Spec
	lack error // why it is missing; nil = found

	proof proof // of what Approved claims
}

// unsafe reports whether j may run only once. A tool that is currently missing counts as unsafe.
func (j job) unsafe() bool { return j.spec.Effect == tool.EffectUnsafe || j.lack != nil }

// handle sees to it that a call has its result. An error has the call delivered again.
func (e *Executor) handle(ctx context.Context, call record.ToolCall) error {
	place := strings.Join([]string{call.Tenant, call.RequestID, call.ToolCallID}, " ")
	if _, twice := e.open.LoadOrStore(place, struct{}{}); twice {
		return bus.ErrLeave // the broker was away for long: the first delivery still runs here, and settles the call
	}
	defer e.open.Delete(place)
	j := job{ToolCall: call, log: bus.LogID{Tenant: call.Tenant, RequestID: call.RequestID}}
	_, err := e.deps.Bus.ToolResult(ctx, j.log, j.ToolCallID)
	if err == nil {
		return nil // an earlier delivery got as far as the result
	}
	if !errors.Is(err, bus.ErrNotFound) {
		return fmt.Errorf("look for the result of call %s: %w", j.ToolCallID, err)
	}
	if j.tool, j.lack = e.find(ctx, call.Tool); j.tool != nil {
		j.spec = j.tool.Spec()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if j.Approved != "" {
		if j.proof, err = e.prove(ctx, j); err != nil {
			return fmt.Errorf("look for the approval of call %s: %w", j.ToolCallID, err)
		}
		if settled, err := e.handOn(ctx, j); settled || err != nil {
			return err
		}
	}
	ctx, observed := e.measure.Start(ctx, call, j.tool != nil)
	v, err := e.settle(ctx, j)
	if err != nil {
		observed.Fail(err)
		return fmt.Errorf("call %s of %.64q: %w", j.ToolCallID, j.Tool, err)
	}
	stored, err := e.put(ctx, j, v, observed.Elapsed())
	if err != nil {
		observed.Fail(err)
		return err
	}
	observed.End(ctx, v.label(), stored)
	e.deps.Log.LogAttrs(ctx, slog.LevelInfo, "tool call ended",
		slog.String(telemetry.LogTool, j.spec.Name), slog.String("status", string(v.label())), slog.String(telemetry.LogToolCall, j.ToolCallID),
		slog.String(telemetry.LogRequest, j.RequestID), slog.Duration("elapsed", observed.Elapsed()), slog.Bool("stored", stored))
	return nil
}

// settle rejects a call or runs it. An unsafe call that was started before gets neither: its outcome is unknown.
func (e *Executor) settle(ctx context.Context, j job) (verdict, error) {
	if j.unsafe() {
		_, err := e.deps.Bus.ToolStarted(ctx, j.log, j.ToolCallID)
		if err == nil {
			return interrupted(), e.awaitKept(ctx, j)
		}
		if !errors.Is(err, bus.ErrNotFound) {
			return verdict{}, fmt.Errorf("look whether it has started: %w", err)
		}
	}
	var err error
	if j.spec.Approval, err = e.approval(ctx, j); err != nil {
		return verdict{}, fmt.Errorf("look who calls: %w", err)
	}
	if v, refused := e.refuse(j); refused {
		return v, nil
	}
	if why := j.proof.lack; why != "" {
		e.log(ctx, j, "a call was refused that claims to be approved", errors.New(why), slog.String(telemetry.LogAction, j.Approved))
		return verdict{status: event.ToolDenied, content: "the approval of this call does not hold: " + why + "; it did not run"}, nil
	}
	return e.run(ctx, j)
}

// refuse says why a call must not run. The model that made it reads the reason, so it says what to do instead.
func (e *Executor) refuse(j job) (verdict, bool) {
	if j.lack != nil {
		return failed("%s", apierr.From(j.lack).Message), true
	}
	hash, err := record.HashArgs(j.Args)
	if err != nil {
		return failed("the arguments are not valid JSON"), true
	}
	if hash != j.ArgsHash {
		return failed("the arguments are not the ones that the call was made with; it did not run"), true
	}
	if !j.Deadline.IsZero() && !e.deps.Bus.Now().Before(j.Deadline) {
		return failed("the call's deadline had passed before it could start; it did not run"), true
	}
	if j.spec.Approval == tool.ApprovalAlways && j.Approved == "" {
		return verdict{status: event.ToolDenied, content: "this tool needs the approval of a person, which is missing; it did not run"}, true
	}
	return verdict{}, false
}

// run runs a call. An abort of its request ends it.
func (e *Executor) run(ctx context.Context, j job) (verdict, error) {
	call, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, err := e.deps.Bus.WatchAbort(call, j.log, func(record.Abort) { cancel(errAborted) })
	if err != nil {
		return verdict{}, err
	}
	defer stop()
	if j.unsafe() {
		first, err := e.putStarted(ctx, j)
		if err != nil {
			return verdict{}, err
		}
		if !first {
			return interrupted(), e.awaitKept(ctx, j)
		}
	}
	aborted, err := e.aborted(ctx, j) // the watch reports it too, but maybe later than the tool starts
	if err != nil {
		return verdict{}, fmt.Errorf("look for an abort: %w", err)
	}
	if aborted && !weaken.Without(weaken.AbortBeforeRun) {
		return verdict{status: event.ToolAborted, content: neverRan}, nil
	}
	progress := output.NewStream(func(delta string) {
		// Lost output is not an error: the result has it.
		_ = e.deps.Bus.Progress(call, j.log, record.ToolProgress{ToolCallID: j.ToolCallID, Delta: delta})
	})
	result, err := e.limiter.Call(call, j.tool, tool.Call{
		ID: j.ToolCallID, Args: j.Args, Progress: progress.Write,
		Emit:    e.shower(call, j),
		For:     tool.Caller{Tenant: j.Tenant, ThreadID: j.ThreadID, RequestID: j.RequestID, AgentID: j.AgentID},
		Context: j.Context, Answer: j.proof.answer,
	}, e.time(j))
	progress.Close()
	return e.judge(ctx, j, result, err)
}

// abortReadTimeout bounds one look for an abort, and with it how long after an abort is stored a call may still start.
const abortReadTimeout = 2 * time.Second

// aborted reports whether the request of j is aborted. It is the last thing that happens before the tool runs, and an
// answer that takes longer than abortReadTimeout does not count.
func (e *Executor) aborted(ctx context.Context, j job) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	notFound := func(err error) bool { return errors.Is(err, bus.ErrNotFound) }
	err := retry.Policy{First: firstRetry, Final: notFound}.Do(ctx, func(ctx context.Context) error {
		ctx, done := context.WithTimeout(ctx, abortReadTimeout)
		defer done()
		_, err := e.deps.Bus.Aborted(ctx, j.log)
		return err
	})
	if notFound(err) {
		return false, nil
	}
	return err == nil, err
}

// limit is how long a call of the tool may take.
func (j job) limit() time.Duration {
	if j.spec.Timeout == 0 {
		return defaultTimeout
	}
	return j.spec.Timeout
}

// time is how long this call may take. Its deadline was set by the runner, in the broker's time.
func (e *Executor) time(j job) time.Duration {
	if j.Deadline.IsZero() {
		return j.limit()
	}
	return min(j.limit(), j.Deadline.Sub(e.deps.Bus.Now()))
}
