package remote_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/transcript"
)

var errDied = errors.New("the runner died")

// newThread is a thread with a first request that is done, and a second one that has begun.
func newThread() *transcript.State {
	state := new(transcript.State)
	for _, e := range []struct {
		request string
		body    event.Body
	}{
		{"req_0", event.Input{AgentID: "home-pc-01", Messages: []event.InputMessage{event.UserText("first")}}},
		{"req_0", event.AgentSession{SessionID: "s1"}},
		{"req_0", event.UsageSoFar{Turns: 1, FinishReason: event.FinishStop}},
		{"req_0", event.Done{}},
		{"req_1", event.Input{AgentID: "home-pc-01", Messages: []event.InputMessage{event.UserText("second")}}},
	} {
		state.Fold(event.Event{RequestID: e.request, Body: e.body})
	}
	return state
}

// send has a runner do the turn that a thread's state asks for. It dies once it has stored so many states of the session;
// -1 = never.
func (l *lab) send(t *testing.T, state *transcript.State, states int) error {
	t.Helper()
	turn := turn("")
	turn.Messages, turn.Known = state.Messages(), state.Known()
	_, err := l.session(t, state.Session()).Send(t.Context(), turn, func(c backend.Chunk) error {
		kept, ok := c.(backend.State)
		if !ok {
			return nil
		}
		if states == 0 {
			return errDied
		}
		states--
		state.Fold(event.Event{RequestID: "req_1", Body: event.AgentSession{SessionID: kept.ID, Used: kept.Used}})
		return nil
	})
	return err
}

// A runner may die at any point of an assignment. The next one repeats it as it was: the same key, and a session that knows
// the conversation is sent only what is new.
func TestATakeoverRepeatsAnAssignmentAsItWas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		states  int
		refused error // what the hub answered the runner that died
	}{
		{"before the log names it", 0, nil},
		{"before the hub has it", 1, errDied},
		{"before the log names the task", 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, work()...)
			state := newThread()
			l.refuse = map[string]error{"s1": tt.refused}
			if err := l.send(t, state, tt.states); !errors.Is(err, errDied) {
				t.Fatalf("the first runner: got %v", err)
			}
			l.refuse = nil
			if err := l.send(t, state, -1); err != nil {
				t.Fatal(err)
			}
			tasks := slices.Collect(maps.Values(l.tasks))
			if len(tasks) != 1 || tasks[0].Task != "second" || tasks[0].ResumeSession != "s1" {
				t.Errorf("got %+v, want one task with what session s1 does not know", tasks)
			}
		})
	}
}

// A user may say the same twice in a request: the second time is a task of its own.
func TestTwoTurnsWithTheSamePromptAreTwoTasks(t *testing.T) {
	t.Parallel()
	l := newLab(t, remoteagent.Result{Status: remoteagent.Completed, Result: "yes", SessionID: "s1"})
	s := l.session(t, backend.State{ID: "s1"})
	said := turn("continue")
	for range 2 {
		if _, err := s.Send(t.Context(), said, func(backend.Chunk) error { return nil }); err != nil {
			t.Fatal(err)
		}
		said.Messages = append(said.Messages,
			backend.Message{Role: backend.Assistant, Parts: []backend.Part{backend.Text{Text: "yes"}}}, said.Messages[0])
		said.Known = 2
	}
	for key, a := range l.tasks {
		if a.Task != "continue" || a.ResumeSession != "s1" {
			t.Errorf("task %s: got %q in session %q, want the same prompt in s1", key, a.Task, a.ResumeSession)
		}
	}
	if len(l.tasks) != 2 {
		t.Errorf("got %d tasks, want 2", len(l.tasks))
	}
}
