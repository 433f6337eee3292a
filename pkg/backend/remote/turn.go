package remote

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/spoke"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// turn turns the events of one task into chunks.
type turn struct {
	emit    backend.Emit
	place   place  // behind the last step
	heard   uint64 // number of the newest event
	base    event.Usage
	turns   int
	said    bool
	open    []started
	next    int             // number of the next tool that has no id of its own
	step    *spoke.Progress // the agent has ended a turn, and may go on
	outcome backend.Outcome
	refused bool // emit has failed: the request goes no further
}

// started is a tool that runs.
type started struct{ id, name string }

func newTurn(p place, emit backend.Emit) *turn {
	return &turn{emit: emit, place: p, heard: p.after, base: p.used, said: p.after > 0}
}

func (t *turn) say(c backend.Chunk) error {
	if err := t.emit(c); err != nil {
		t.refused = true
		return err
	}
	return nil
}

func (t *turn) warn(text string) error { return t.say(backend.Warning(text)) }

// survives reports whether the task may be followed again after an error: when the agent did not answer, or took the key
// no more, which may just have been replaced.
func (t *turn) survives(err error) bool {
	if t.refused {
		return false
	}
	refusal, ok := errors.AsType[*spoke.Refusal](err)
	return !ok || refusal.HTTP == http.StatusUnauthorized || refusal.HTTP == http.StatusForbidden ||
		refusal.HTTP == http.StatusTooManyRequests || refusal.HTTP >= http.StatusInternalServerError
}

// take takes up one event, and reports whether it was the last.
func (t *turn) take(e spoke.Event) (ended bool, err error) {
	switch body := e.Body.(type) {
	case spoke.Result:
		return true, t.result(body)
	case spoke.Failure:
		return true, t.failure(body)
	case spoke.Progress:
		err = t.progress(body, e.ID)
	case spoke.Unknown:
	default:
		if err = t.goesOn(); err == nil {
			err = t.content(body)
		}
	}
	if err == nil {
		t.heard = e.ID
	}
	return false, err
}

func (t *turn) content(body spoke.Body) error {
	switch e := body.(type) {
	case spoke.TextDelta:
		t.said = true
		return t.say(backend.TextDelta(e.Text))
	case spoke.ToolStart:
		return t.start(e)
	case spoke.ToolOutput:
		if s, ok := t.running(e.ToolCallID, e.Tool); ok {
			return t.say(backend.ToolProgress{ID: s.id, Delta: e.Text})
		}
	case spoke.ToolEnd:
		return t.end(e)
	}
	return nil
}

func (t *turn) start(e spoke.ToolStart) error {
	s := started{id: e.ToolCallID, name: e.Tool}
	if s.id == "" {
		t.next++
		s.id = "tool-" + strconv.FormatUint(t.heard, 10) + "-" + strconv.Itoa(t.next)
	}
	args := e.Input
	if args == nil && e.File != "" {
		text, err := json.Marshal(map[string]string{"file": e.File})
		if err != nil {
			return err
		}
		args = jsontext.Value(text)
	}
	t.open = append(t.open, s)
	return t.say(backend.ToolStarted{ID: s.id, Name: e.Tool, Args: args})
}

func (t *turn) end(e spoke.ToolEnd) error {
	s, ok := t.running(e.ToolCallID, e.Tool)
	if !ok {
		return nil
	}
	for i := range t.open {
		if t.open[i] == s {
			t.open = append(t.open[:i], t.open[i+1:]...)
			break
		}
	}
	ended := backend.ToolEnded{ID: s.id, Content: e.Summary, Summary: e.Summary, Status: event.ToolSuccess}
	if !e.Success {
		ended.Status = event.ToolFailed
	}
	return t.say(ended)
}

// running finds a tool by the agent's id for the call or, where it gives none, by name.
func (t *turn) running(callID, name string) (started, bool) {
	for _, s := range t.open {
		if s.id == callID || callID == "" && s.name == name {
			return s, true
		}
	}
	return started{}, false
}

// progress notes that a turn of the agent has ended. Whether it was the last one shows what comes next.
func (t *turn) progress(p spoke.Progress, number uint64) error {
	if p.TurnsCompleted <= t.turns {
		return nil
	}
	if t.step != nil {
		if err := t.goesOn(); err != nil {
			return err
		}
	}
	t.turns, t.step, t.heard = p.TurnsCompleted, &p, number
	return nil
}

// goesOn tells of the turn that has ended, and then how far the task was heard: whoever takes over begins there.
func (t *turn) goesOn() error {
	if t.step == nil {
		return nil
	}
	used := spent(t.step.Usage, t.step.CostUSD)
	t.step = nil
	if err := t.say(backend.Step{Usage: used.Sub(t.place.used)}); err != nil {
		return err
	}
	t.place.after, t.place.used = t.heard, used
	return t.say(t.place.state())
}

func spent(u *event.Usage, costUSD float64) event.Usage {
	if u == nil {
		return event.Usage{CostUSD: costUSD}
	}
	usage := *u
	usage.CostUSD = costUSD
	return usage
}

func (t *turn) result(r spoke.Result) error {
	t.settle(spent(r.Usage, r.CostUSD), r.SessionID)
	if !t.said && r.Result != "" && r.Status == spoke.Completed {
		if err := t.say(backend.TextDelta(r.Result)); err != nil {
			return err
		}
	}
	if err := t.say(t.place.state()); err != nil {
		return err
	}
	switch r.Status {
	case spoke.Completed:
		t.outcome.Finish = event.FinishStop
	case spoke.MaxTurns:
		t.outcome.Finish = event.FinishMaxTurns
	case spoke.MaxBudget:
		t.outcome.Finish = event.FinishBudget
	default:
		return fault.New(fault.AgentError, "the task was %s at the remote agent; what it has changed so far stays", r.Status)
	}
	return nil
}

func (t *turn) failure(f spoke.Failure) error {
	t.settle(spent(f.Usage, f.CostUSD), f.SessionID)
	if err := t.say(t.place.state()); err != nil {
		return err
	}
	failed := fault.New(fault.AgentError, "the remote agent failed: %s", f.Message)
	failed.Retryable = f.Recoverable
	return failed
}

// settle counts what the task has used since this session took it up, and leaves the task.
func (t *turn) settle(used event.Usage, sessionID string) {
	t.outcome.Usage = used.Sub(t.base)
	if sessionID != "" {
		t.place.session = sessionID
	}
	t.place = place{session: t.place.session}
}
