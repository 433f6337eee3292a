package remote

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	jsonv2 "github.com/go-json-experiment/json"
)

// turn converts the events of one task to chunks. The chunks of a tool or of a step are stored together with the
// position after them. Text has no position: after a takeover it is read again from the position before it, and text
// that the log has is not written twice.
type turn struct {
	emit    backend.Emit
	place   place  // position after the chunks emitted as settled
	heard   uint64 // number of the newest event
	base    event.Usage
	turns   int
	resumed bool // the next Progress says that the task continues after its actions
	said    bool
	open    []backend.RunningTool
	step    *remoteagent.Progress // the agent has ended a turn, and may continue
	stepped uint64                // number of the event that said so
	outcome backend.Outcome
	refused bool // emit has failed: the request goes no further
}

func newTurn(p place, running []backend.RunningTool, emit backend.Emit) *turn {
	return &turn{emit: emit, place: p, heard: p.after, base: p.used, said: p.said, open: running, resumed: p.wait != ""}
}

func (t *turn) say(c backend.Chunk) error {
	if err := t.emit(c); err != nil {
		t.refused = true
		return err
	}
	return nil
}

// settle emits a chunk together with the position after its event.
func (t *turn) settle(number uint64, c backend.Chunk) error {
	t.place.after, t.place.said = number, t.said
	return t.say(backend.Settled{Chunks: []backend.Chunk{c}, State: t.place.state()})
}

func (t *turn) warn(text string) error { return t.say(backend.Warning(text)) }

// survives reports whether the task may be followed again after an error: when the agent did not answer, or took the key
// no more, which may just have been replaced.
func (t *turn) survives(err error) bool {
	if t.refused {
		return false
	}
	refusal, ok := errors.AsType[*remoteagent.Refusal](err)
	return !ok || refusal.HTTP == http.StatusUnauthorized || refusal.HTTP == http.StatusForbidden ||
		refusal.HTTP == http.StatusTooManyRequests || refusal.HTTP >= http.StatusInternalServerError
}

// take takes up one event, and reports whether it was the last.
func (t *turn) take(e remoteagent.Event) (ended bool, err error) {
	switch body := e.Body.(type) {
	case remoteagent.Result:
		return true, t.result(body)
	case remoteagent.Failure:
		return true, t.failure(body)
	case remoteagent.ActionRequired:
		return true, t.require(e.ID, body)
	case remoteagent.Progress:
		err = t.progress(body, e.ID)
	case remoteagent.Unknown:
	default:
		if err = t.goesOn(); err == nil {
			err = t.content(e.ID, body)
		}
	}
	if err == nil {
		t.heard = e.ID
	}
	return false, err
}

func (t *turn) content(number uint64, body remoteagent.Body) error {
	switch e := body.(type) {
	case remoteagent.TextDelta:
		t.said = true
		return t.say(backend.TextDelta(e.Text))
	case remoteagent.ToolStart:
		return t.start(number, e)
	case remoteagent.ToolOutput:
		if tool, ok := t.running(e.ToolCallID, e.Tool); ok {
			return t.say(backend.ToolProgress{ID: tool.ID, Delta: e.Text})
		}
	case remoteagent.ToolEnd:
		return t.end(number, e)
	}
	return nil
}

func (t *turn) start(number uint64, e remoteagent.ToolStart) error {
	tool := backend.RunningTool{ID: cmp.Or(e.ToolCallID, "tool-"+strconv.FormatUint(number, 10)), Name: e.Tool}
	args := e.Input
	if args == nil && e.File != "" {
		text, err := jsonv2.Marshal(map[string]string{"file": e.File})
		if err != nil {
			return err
		}
		args = json.RawMessage(text)
	}
	t.open = append(t.open, tool)
	return t.settle(number, backend.ToolStarted{ID: tool.ID, Name: e.Tool, Args: args})
}

func (t *turn) end(number uint64, e remoteagent.ToolEnd) error {
	tool, ok := t.running(e.ToolCallID, e.Tool)
	if !ok {
		return nil
	}
	t.open = slices.DeleteFunc(t.open, func(o backend.RunningTool) bool { return o.ID == tool.ID })
	ended := backend.ToolEnded{ID: tool.ID, Content: e.Summary, Summary: e.Summary, Status: event.ToolSuccess}
	switch {
	case e.Denied:
		ended.Status = event.ToolDenied
	case !e.Success:
		ended.Status = event.ToolFailed
	}
	return t.settle(number, ended)
}

// running finds a tool by the agent's id for the call or, where it gives none, by name.
func (t *turn) running(callID, name string) (backend.RunningTool, bool) {
	for _, tool := range t.open {
		if tool.ID == callID || callID == "" && tool.Name == name {
			return tool, true
		}
	}
	return backend.RunningTool{}, false
}

// progress notes that a turn of the agent has ended. Whether it was the last one shows what comes next.
func (t *turn) progress(p remoteagent.Progress, number uint64) error {
	if t.resumed {
		t.resumed, t.turns = false, p.TurnsCompleted
	}
	if p.TurnsCompleted <= t.turns {
		return nil
	}
	if t.step != nil {
		if err := t.goesOn(); err != nil {
			return err
		}
	}
	t.turns, t.step, t.stepped = p.TurnsCompleted, &p, number
	return nil
}

// goesOn emits the step that has ended, now that another event shows that it was not the last.
func (t *turn) goesOn() error {
	if t.step == nil {
		return nil
	}
	used := spent(t.step.Usage, t.step.CostUSD)
	t.step = nil
	step := backend.Step{Usage: used.Sub(t.place.used)}
	t.place.used = used
	return t.settle(t.stepped, step)
}

func spent(u *event.Usage, costUSD float64) event.Usage {
	if u == nil {
		return event.Usage{CostUSD: costUSD}
	}
	usage := *u
	usage.CostUSD = costUSD
	return usage
}

func (t *turn) result(r remoteagent.Result) error {
	t.leave(spent(r.Usage, r.CostUSD), r.SessionID)
	if !t.said && r.Result != "" && r.Status == remoteagent.Completed {
		if err := t.say(backend.TextDelta(r.Result)); err != nil {
			return err
		}
	}
	if len(r.Denials) > 0 {
		if err := t.warn("The agent was not permitted to make these calls, whose effect is missing: " + hubapi.Denied(r.Denials)); err != nil {
			return err
		}
	}
	switch r.Status {
	case remoteagent.Completed:
		t.outcome.Finish = event.FinishStop
	case remoteagent.MaxTurns:
		t.outcome.Finish = event.FinishMaxTurns
	case remoteagent.MaxBudget:
		t.outcome.Finish = event.FinishBudget
	default:
		return apierr.New(apierr.AgentError, "the task was %s at the remote agent; changes that it has made so far remain", r.Status)
	}
	return nil
}

func (t *turn) failure(f remoteagent.Failure) error {
	t.leave(spent(f.Usage, f.CostUSD), f.SessionID)
	failed := apierr.New(apierr.AgentError, "the remote agent failed: %s", f.Message)
	failed.Retryable = f.Recoverable
	return failed
}

// leave counts what the task has used since this session took it up, and leaves it: the end of the turn, or of the
// request, is stored with the state that says so.
func (t *turn) leave(used event.Usage, sessionID string) {
	t.outcome.Usage = used.Sub(t.base)
	t.place = place{session: cmp.Or(sessionID, t.place.session)}
	t.outcome.State = t.place.state()
}
