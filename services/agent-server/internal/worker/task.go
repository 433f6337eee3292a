package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/transcript"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
	"github.com/agentbus/agentbus/services/agent-server/internal/taskevents"
	"github.com/go-json-experiment/json"
)

var (
	// ErrStopping is the cause with which a task's context is cancelled when the process ends.
	ErrStopping = errors.New("the agent server is shutting down")
	// ErrNeedsAction reports that a task waits for an answer to its actions.
	ErrNeedsAction = errors.New("the task waits for an action")
)

// task is a running task. It is one request on the session's thread, or several: if the agent requires an action,
// another request brings the result.
type task struct {
	worker *Worker
	store.Entry
	recorder *recorder
	agent    loop.Agent
	tools    map[string]tool.Tool
	state    *transcript.State
	own      []event.Event // the task's own events at the start
	busy     time.Duration // of its requests that have ended
	leave    <-chan struct{}
}

// Run takes a task to its end, and records that. It returns nil when the end is recorded, and [ErrNeedsAction] when it is
// recorded that the task waits; otherwise the task is to be run again: ctx ended with [ErrStopping], leave was closed, or
// the record could not be written. An abort is a cancellation of ctx with a *loop.Abort.
func (w *Worker) Run(ctx context.Context, e store.Entry, leave <-chan struct{}) error {
	t := &task{worker: w, Entry: e, state: new(transcript.State), leave: leave}
	if err := t.open(ctx); err != nil {
		return fmt.Errorf("open task %s: %w", e.TaskID, err)
	}
	defer t.recorder.close()
	if err := t.prepare(); err != nil {
		return fmt.Errorf("prepare task %s: %w", e.TaskID, err)
	}
	for n := t.requests(); ; n++ {
		if n > 0 {
			if err := t.awaitActions(ctx); err != nil {
				return err
			}
		}
		begun := time.Now()
		again, err := t.request(ctx, n)
		if err != nil {
			return err
		}
		t.busy += time.Since(begun)
		if !again {
			w.deps.Ended(ctx, t.recorder.task())
			return nil
		}
	}
}

// open reads what the session and the task have done so far.
func (t *task) open(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // a task that is cancelled at once is opened nevertheless: its end is to be recorded
	s := t.worker.deps.Store
	events, lines, err := s.Log(ctx, t.SessionID)
	if err != nil {
		return err
	}
	newest, err := s.LastEvent(ctx, t.TaskID)
	if err != nil {
		return err
	}
	converter := taskevents.New(t.Task, t.Cwd)
	for _, e := range events {
		if t.owns(e.RequestID) {
			converter.Convert(e)
			t.own = append(t.own, e)
		}
	}
	if err := t.resume(ctx, converter); err != nil {
		return err
	}
	t.busy = busyTime(t.own)
	t.state.Fold(events...)
	if err := t.state.Load(ctx, objects{s, t.SessionID}); err != nil {
		return err
	}
	t.recorder = newRecorder(t.worker, t.Entry, converter, newest.N, lines)
	if newest.N == 0 {
		t.recorder.begin()
	}
	return nil
}

// busyTime is how long the requests of a log took that have ended.
func busyTime(log []event.Event) (sum time.Duration) {
	var first event.Event
	for _, e := range log {
		if e.RequestID != first.RequestID {
			first = e
		}
		if event.IsTerminal(e.Body) {
			sum += e.Time.Sub(first.Time)
		}
	}
	return sum
}

// resume passes the converter the text that clients have seen of a turn that a process before this one has not finished. The log
// does not have it: it has the text of finished blocks alone.
func (t *task) resume(ctx context.Context, converter *taskevents.Converter) error {
	events, err := t.worker.deps.Store.Tail(ctx, t.TaskID, remoteagent.TextDelta{}.Name())
	if err != nil {
		return err
	}
	var shown strings.Builder
	for _, e := range events {
		var delta remoteagent.TextDelta
		if err := json.Unmarshal([]byte(e.Data), &delta); err != nil {
			return fmt.Errorf("decode event %d of task %s: %w", e.N, t.TaskID, err)
		}
		shown.WriteString(delta.Text)
	}
	converter.Resume(shown.String())
	return nil
}

// requestID names a request of the task.
func (t *task) requestID(n int) string { return t.TaskID + "-" + strconv.Itoa(n) }

func (t *task) owns(requestID string) bool { return strings.HasPrefix(requestID, t.TaskID+"-") }

// maxRequests bounds how often the agent may need an action in one task.
const maxRequests = 1000

// requests counts the task's requests that have ended: the number of the one to run.
func (t *task) requests() int {
	ended := 0
	for _, e := range t.own {
		if event.IsTerminal(e.Body) {
			ended++
		}
	}
	return ended
}

// request runs one request of the task, and reports whether another one must continue it.
func (t *task) request(ctx context.Context, n int) (again bool, err error) {
	t.recorder.requestID = t.requestID(n)
	epoch := t.claims(t.recorder.requestID) + 1
	opening := []event.Body{event.Claim{Epoch: epoch, Runner: "agent-server"}}
	if !t.hasInput(t.recorder.requestID) {
		opening = append(opening, t.input(n))
	}
	if err := t.note(opening...); err != nil {
		return false, err
	}
	r := t.loopRequest(epoch)
	if n >= maxRequests {
		return false, loop.Refuse(ctx, r, apierr.New(apierr.AgentError, "the agent asked for a person %d times", maxRequests))
	}
	err = loop.Run(ctx, r)
	switch {
	case err == nil:
		return t.recorder.task().Status == remoteagent.Running, nil
	case errors.Is(err, loop.ErrHandOver):
		return false, t.release(ctx, epoch, err)
	case errors.Is(err, ErrStopping) && t.worker.deps.FailOnStop:
		stopped := apierr.New(apierr.AgentError, "the agent server was stopped while the task ran; its session can be resumed")
		stopped.Retryable = true
		return false, loop.Refuse(context.WithoutCancel(ctx), r, stopped)
	case errors.Is(err, ErrStopping):
		return false, t.release(ctx, epoch, err)
	default:
		return false, err
	}
}

// release records that the task stops here on purpose, so that continuing it does not count as a crash.
func (t *task) release(ctx context.Context, epoch uint64, why error) error {
	err := t.note(event.Claim{Epoch: epoch, Runner: "agent-server", Released: true})
	if err == nil {
		err = t.recorder.Flush(context.WithoutCancel(ctx))
	}
	return errors.Join(why, err)
}

// note records events that the loop has no part in, all or none.
func (t *task) note(bodies ...event.Body) error {
	events, err := t.recorder.emit(bodies...)
	t.state.Fold(events...)
	return err
}

// hasInput reports whether the log has what a request brings. A claim without it is that of a process which was killed
// between the two; versions of this program that stored them separately could leave one.
func (t *task) hasInput(requestID string) bool {
	return slices.ContainsFunc(t.own, func(e event.Event) bool {
		_, ok := e.Body.(event.Input)
		return ok && e.RequestID == requestID
	})
}

func (t *task) claims(requestID string) (n uint64) {
	for _, e := range t.own {
		if c, ok := e.Body.(event.Claim); ok && e.RequestID == requestID && !c.Released {
			n++
		}
	}
	return n
}

// input is what a request brings: the prompt, or what becomes of the actions that wait.
func (t *task) input(n int) event.Input {
	input := event.Input{ThreadID: t.SessionID, AgentID: t.agent.Name}
	if n == 0 {
		input.Messages = []event.InputMessage{event.UserText(t.Assignment.Prompt)}
		return input
	}
	for _, action := range t.state.Actions() {
		if result, ok := t.result(action.Continuation); ok {
			input.ActionResults = append(input.ActionResults, result)
		}
	}
	if message := remoteagent.MessageOf(t.Answers, t.asked()); message != "" {
		input.Messages = []event.InputMessage{event.UserText(message)}
	}
	return input
}

// decide returns the result of an action for which the task does not wait.
func (t *task) decide(c event.Continuation) event.ActionResult {
	mode := t.mode()
	switch {
	case t.allows(c):
		return event.ActionResult{ActionID: c.ActionID, Status: event.ActionSuccess}
	case c.Kind == event.ContinueApproval:
		return denied(c, "it needs an approval, which permissionMode %q does not give", mode)
	case c.Kind == event.ContinueInput:
		return denied(c, noUser)
	default:
		return denied(c, "an agent server has no client that runs tools")
	}
}

// noUser is the answer to a question.
const noUser = "the task takes no answers of a user; continue with the information that you have"

func denied(c event.Continuation, format string, args ...any) event.ActionResult {
	return event.ActionResult{ActionID: c.ActionID, Status: event.ActionDenied, Error: fmt.Sprintf(format, args...)}
}

func (t *task) loopRequest(epoch uint64) loop.Request {
	d := t.worker.deps
	agent := t.agent
	agent.Turns = max(0, agent.Turns-t.recorder.earlierTurns())
	if agent.CostUSD > 0 { // 0 would be no limit
		agent.CostUSD = max(1e-12, agent.CostUSD-t.recorder.earlierCost())
	}
	agent.Time = max(time.Millisecond, agent.Time-t.busy)
	return loop.Request{
		RequestID: t.recorder.requestID, ThreadID: t.SessionID, Workspace: t.Cwd, Epoch: epoch, Agent: agent, State: t.state,
		Backend: d.Backend, Log: t.recorder, Tools: tools{t}, Objects: objects{d.Store, t.SessionID}, Actions: noActions{},
		ReadCommands: func(context.Context) (*loop.Abort, []loop.Steer) { return nil, nil },
		HandOver:     t.leave,
		Price:        d.Price,
		Logger:       d.Log,
	}
}

// prepare makes the agent of the task, and its tools.
func (t *task) prepare() error {
	d, a := t.worker.deps, t.Assignment
	agent := d.Agent
	agent.Model = cmp.Or(a.Model, agent.Model)
	agent.System = cmp.Or(a.SystemPrompt, agent.System)
	agent.FailOnCrash = d.FailOnStop
	agent.CompressAt = int64(d.CompressAt * float64(d.Window(agent.Model)))
	agent.Turns = cmp.Or(a.MaxTurns, d.Limits.Turns, defaultTurns)
	if d.Limits.Turns > 0 {
		agent.Turns = min(agent.Turns, d.Limits.Turns)
	}
	agent.CostUSD = cmp.Or(a.MaxBudgetUSD, d.Limits.CostUSD, defaultCostUSD)
	if d.Limits.CostUSD > 0 {
		agent.CostUSD = min(agent.CostUSD, d.Limits.CostUSD)
	}
	agent.Tools = t.equip(agent.Tools)
	text, err := json.Marshal(options{
		Script: d.Script, PermissionMode: d.Permissions.Mode(a.PermissionMode), AllowedTools: d.Permissions.Grants(a.AllowedTools),
		Approvals: a.Approvals,
	})
	if err != nil {
		return fmt.Errorf("options of the backend: %w", err)
	}
	agent.Options = text
	t.agent = agent
	return nil
}

// options are the backend's options. Agents that run their own tools use the last three.
type options struct {
	Script         string                     `json:"script,omitempty"`
	PermissionMode remoteagent.PermissionMode `json:"permissionMode"`
	AllowedTools   []string                   `json:"allowedTools,omitzero"` // that need no approval
	Approvals      remoteagent.Approvals      `json:"approvals,omitempty"`   // whether the task waits for those that the mode does not give
}

// noActions drops actions: the task's record has them.
type noActions struct{}

func (noActions) Put(context.Context, []event.Continuation) {}
