package agentrunner_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/hubapi"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
)

// later is a bus whose broker has a later time than its messages say.
type later struct {
	*bus.Bus
	by time.Duration
}

func (l later) Now() time.Time { return l.Bus.Now().Add(l.by) }

// absentHub does not answer the first questions. Then it notes what it is asked to cancel.
type absentHub struct {
	silent    atomic.Int32
	cancelled chan hubapi.TaskRef
	assigned  chan string // keys of assignments that get no answer; nil = none is expected
}

func (h *absentHub) answer() error {
	if h.silent.Add(-1) < 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", hubapi.ErrSilent, apierr.New(apierr.Unavailable, "the hub service does not answer"))
}

func (h *absentHub) AssignTask(_ context.Context, a hubapi.Assignment) (hubapi.Task, error) {
	if h.assigned != nil {
		h.assigned <- a.Key
		return hubapi.Task{}, fmt.Errorf("%w: %w", hubapi.ErrSilent, apierr.New(apierr.Unavailable, "the answer is lost"))
	}
	return hubapi.Task{}, apierr.New(apierr.AgentError, "no task is expected")
}

func (h *absentHub) Connect(context.Context, hubapi.AgentRef) (hubapi.Connection, error) {
	return hubapi.Connection{URL: "http://127.0.0.1:1"}, h.answer()
}

func (h *absentHub) AnswerTask(context.Context, hubapi.Answer) (hubapi.Task, error) {
	return hubapi.Task{}, apierr.New(apierr.AgentError, "no answer is expected")
}

func (h *absentHub) CancelTask(_ context.Context, r hubapi.TaskRef) (hubapi.Cancelled, error) {
	if err := h.answer(); err != nil {
		return hubapi.Cancelled{}, err
	}
	select {
	case h.cancelled <- r:
	default:
	}
	return hubapi.Cancelled{TaskID: r.TaskID}, nil
}

// TestTheTaskOfARequestThatTheReaperEndsIsCancelledWhenTheHubIsBack lets a request to a remote agent lose its runner, its
// pointer and its time while the hub is away.
func TestTheTaskOfARequestThatTheReaperEndsIsCancelledWhenTheHubIsBack(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	away := &absentHub{cancelled: make(chan hubapi.TaskRef, 1)}
	away.silent.Store(3)
	s.hub, s.sweep = away, 50*time.Millisecond
	accepted, next := s.record(event.AgentRequest{Messages: []event.InputMessage{event.UserText("build it")}})
	accepted.AgentID, next.AgentID = "vm-1", "vm-1"
	s.append(accepted, next)
	log := bus.LogID{Tenant: tenant, RequestID: accepted.RequestID}
	w, _, err := s.bus.Claim(t.Context(), log, "dead", "test",
		event.Input{ThreadID: "thr_1", AgentID: "vm-1", Messages: accepted.Request.Messages},
		event.AgentSession{SessionID: "task_9@1@" + accepted.RequestID + "#s1"})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	s.history.lists(log, time.Now().Add(-time.Hour))
	s.link = func(parts *agentrunner.Bus) { parts.Broker = later{s.bus, 3 * time.Hour} }
	s.runner("r1")
	if failed, _ := end[event.Error](s, log); failed.Code != apierr.StreamTimeout {
		t.Errorf("it ended with %+v, want stream_timeout", failed)
	}
	select {
	case got := <-away.cancelled:
		if want := (hubapi.TaskRef{Tenant: tenant, AgentID: "vm-1", TaskID: "task_9"}); got != want {
			t.Errorf("got %+v cancelled, want %+v", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Error("the task was never cancelled")
	}
}

// TestAssignmentWithoutResponseIsCancelledByKey aborts a request while the hub has not answered for its task, which
// it may have given to the agent.
func TestAssignmentWithoutResponseIsCancelledByKey(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	silent := &absentHub{cancelled: make(chan hubapi.TaskRef, 1), assigned: make(chan string, 100)}
	s.hub = silent
	accepted, next := s.record(event.AgentRequest{Messages: []event.InputMessage{event.UserText("build it")}})
	accepted.AgentID, next.AgentID = "vm-1", "vm-1"
	s.append(accepted, next)
	if err := s.bus.Start(t.Context(), accepted, next.Index); err != nil {
		t.Fatal(err)
	}
	s.runner("r1")
	key := <-silent.assigned
	silent.silent.Store(3) // it stays away for a while after the abort
	log := bus.LogID{Tenant: tenant, RequestID: accepted.RequestID}
	s.abort(log, time.Now())
	end[event.Aborted](s, log)
	select {
	case got := <-silent.cancelled:
		if want := (hubapi.TaskRef{Tenant: tenant, AgentID: "vm-1", Key: key}); got != want {
			t.Errorf("got %+v cancelled, want %+v", got, want)
		}
	case <-time.After(time.Minute):
		t.Error("the task was never cancelled")
	}
}
