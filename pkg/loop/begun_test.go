package loop

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// tasker is a backend whose sessions give each turn away as a task. A session that resumes within a task follows that task
// and reads no messages.
type tasker struct {
	backend.Model
	within bool     // the agent's session is resumed within a task
	read   []string // texts of the messages that were given away
}

func (a *tasker) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	a.within = strings.HasPrefix(start.State.ID, "task")
	return a, nil
}

func (*tasker) Stop(context.Context) error { return nil }

func (a *tasker) Send(_ context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if !a.within {
		for _, m := range turn.Messages[turn.Known:] {
			a.read = append(a.read, m.Parts[0].(backend.Text).Text)
		}
		if err := emit(backend.State{ID: "task@0"}); err != nil {
			return backend.Outcome{}, err
		}
	}
	a.within = false
	for _, c := range []backend.Chunk{
		backend.Settled{Chunks: []backend.Chunk{backend.ToolStarted{ID: "c1", Name: "Read"}}, State: backend.State{ID: "task@1"}},
		backend.Settled{Chunks: []backend.Chunk{backend.ToolEnded{ID: "c1", Content: "A"}}, State: backend.State{ID: "task@2"}},
		backend.TextDelta("Done."),
	} {
		if err := emit(c); err != nil {
			return backend.Outcome{}, err
		}
	}
	return backend.Outcome{Finish: event.FinishStop, State: backend.State{ID: "s1"}}, nil
}

// A steer may arrive after the runner has died within a turn of an agent that keeps a session. The turn is finished
// first: the agent would not read the steer before.
func TestASteerWaitsForTheTurnOfASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		play := func() *thread {
			th := newThread(t)
			th.backend = &tasker{}
			th.say("do it")
			return th
		}
		whole := play()
		begun := slices.IndexFunc(whole.log.events, func(e event.Event) bool { return e.Body.Name() == event.NameAgentSession })
		for _, n := range whole.log.ends {
			if n <= begun || n == len(whole.log.events) {
				continue
			}
			th, next := play(), &tasker{}
			th.backend, th.steers = next, []Steer{steer("steer_1", "and that")}
			th.takeover(nil, n)
			if open := th.state.Running(); len(open) > 0 {
				continue // its next session does not start the call again
			}
			if err := th.resume(t.Context()); err != nil {
				t.Fatalf("after %d events: %v", n, err)
			}
			if want := []string{"and that"}; !slices.Equal(next.read, want) {
				t.Errorf("after %d events the agent read %q, want %q", n, next.read, want)
			}
			if got := steered(th.log.events); !slices.Equal(got, []string{"steer_1"}) {
				t.Errorf("after %d events the log has read %q, want steer_1 once", n, got)
			}
		}
	})
}
