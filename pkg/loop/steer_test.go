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

func steer(steerID, text string) Steer {
	return Steer{ID: steerID, Messages: []event.InputMessage{event.UserText(text)}}
}

// steered lists the steers that a log has read, in order.
func steered(events []event.Event) (ids []string) {
	for _, in := range find[event.Input](events) {
		if in.SteerID != "" {
			ids = append(ids, in.SteerID)
		}
	}
	return ids
}

// steering is a backend that lets the user speak while a turn runs.
func (th *thread) steering(at map[int]Steer) backend.Model {
	turns, next := 0, th.backend
	return backendFunc(func(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
		turns++
		if s, ok := at[turns]; ok {
			th.steers = append(th.steers, s)
		}
		return next.Run(ctx, turn, emit)
	})
}

func TestASteerIsReadBeforeTheNextTurn(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script, answer string
	}{
		{"between two turns", "/say one\n/tool calculator {}\n/say never", "one|two"},
		{"before the end", "/say one", "one|two"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				th := newThread(t)
				th.backend = th.steering(map[int]Steer{1: steer("steer_1", "/say two")})
				events := th.say(tt.script)
				done := last[event.Done](t, events)
				if got := texts(done.Content); got != tt.answer || done.FinishReason != event.FinishStop {
					t.Errorf("got %q, %s", got, done.FinishReason)
				}
				if got := steered(events); !slices.Equal(got, []string{"steer_1"}) {
					t.Errorf("the log has read %q", got)
				}
			})
		})
	}
}

func TestASteerThatCannotBeAnsweredIsNotRead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		limit        func(*Agent)
		finish       event.FinishReason
	}{
		{"behind the last turn", "/say one", func(a *Agent) { a.Turns = 1 }, event.FinishStop},
		{"over the budget", "/usage 10 10\n/say one", func(a *Agent) { a.Tokens = 5 }, event.FinishStop},
		{"while a client must act", "/tool pick_file {}", func(*Agent) {}, event.FinishActionRequired},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				th := newThread(t)
				tt.limit(&th.agent)
				th.backend = th.steering(map[int]Steer{1: steer("steer_1", "/say two")})
				events := th.say(tt.script)
				if done := last[event.Done](t, events); done.FinishReason != tt.finish || len(steered(events)) > 0 {
					t.Errorf("it ended with %s, and read %q", done.FinishReason, steered(events))
				}
			})
		})
	}
}

func TestASteerIsReadOnceOverTakeovers(t *testing.T) {
	t.Parallel()
	const script = "/think hm\n/say one\n/tool calculator {}\n/say never"
	play := func(t *testing.T) *thread {
		th := newThread(t)
		th.backend = th.steering(map[int]Steer{
			1: steer("steer_1", "/say two\n/tool calculator {}\n/say never"), 2: steer("steer_2", "/say three"),
		})
		th.say(script)
		return th
	}
	synctest.Test(t, func(t *testing.T) {
		whole := play(t).log.events
		for n := 2; n < len(whole); n++ {
			th := play(t)
			th.takeover(nil, n)
			if err := th.resume(t.Context()); err != nil {
				t.Fatalf("after %d events: %v", n, err)
			}
			done := last[event.Done](t, th.log.events)
			if got := texts(done.Content); !strings.HasSuffix(got, "three") || strings.Count(got, "three") != 1 {
				t.Errorf("after %d events it answered %q", n, got)
			}
			if got := steered(th.log.events); !slices.Equal(got, []string{"steer_1", "steer_2"}) {
				t.Errorf("after %d events the log has read %q:\n%s", n, got, lines(th.log.events))
			}
		}
	})
}

func TestNextRequestHasTheSteerInItsPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		var messages []backend.Message
		inner := th.steering(map[int]Steer{1: steer("steer_1", "/say two")})
		th.backend = backendFunc(func(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
			messages = turn.Messages
			return inner.Run(ctx, turn, emit)
		})
		var told []event.Event
		for _, e := range th.say("/say one") { // as history has it: without usage
			if e.Body.Name() != event.NameUsage {
				told = append(told, e)
			}
		}
		th.state, th.steers = folded(told), nil
		th.say("/say three")
		var roles []backend.Role
		for _, m := range messages {
			roles = append(roles, m.Role)
		}
		want := []backend.Role{backend.User, backend.Assistant, backend.User, backend.Assistant, backend.User}
		if !slices.Equal(roles, want) {
			t.Errorf("the model saw %v, want %v", roles, want)
		}
	})
}
