package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

func TestARequestIsHandedOverBetweenSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const script = "/say one\n/tool calculator {}\n/say two\n/tool calculator {}\n/say three"
		whole := newThread(t).say(script)
		th := newThread(t)
		th.leave = make(chan struct{})
		close(th.leave)
		err := th.run(t.Context(), event.AgentRequest{Messages: []event.InputMessage{event.UserText(script)}})
		for range 10 { // each runner has time for one step
			if !errors.Is(err, ErrHandOver) {
				break
			}
			if open := unstopped(th.log.events); len(open) > 0 {
				t.Fatalf("blocks %v are open:\n%s", open, lines(th.log.events))
			}
			th.put(event.Claim{Epoch: th.epoch, Runner: "r1", Released: true})
			th.takeover(nil, len(th.log.events))
			// A runner that leaves at once would do nothing: let it come to its first edge and no further.
			th.leave = make(chan struct{})
			th.backend = leaving(th, newThread(t).backend)
			th.tools["calculator"] = th.leavingTool()
			err = th.resume(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		sameEnd(t, len(th.log.events), whole, th.log.events)
		if claims := len(find[event.Claim](th.log.events)); claims < 7 {
			t.Errorf("%d claims and releases, want the request to have changed hands at each step", claims)
		}
	})
}

// leaving is a backend during whose turn the runner is stopped.
func leaving(th *thread, next backend.Model) backend.Model {
	return backendFunc(func(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
		th.stop()
		return next.Run(ctx, turn, emit)
	})
}

func (th *thread) leavingTool() func(context.Context, backend.Call, func(Progress)) (Output, error) {
	return func(context.Context, backend.Call, func(Progress)) (Output, error) {
		th.stop()
		return Output{Status: event.ToolSuccess, Content: "42", Summary: "42"}, nil
	}
}

func (th *thread) stop() {
	select {
	case <-th.leave:
	default:
		close(th.leave)
	}
}

func TestAHandOverIsNeitherAStallNorACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		th.agent.FailOnCrash = true
		th.log = &memoryLog{request: 1}
		th.put(event.Claim{Epoch: 1})
		th.put(event.Input{Messages: []event.InputMessage{event.UserText("/say hello")}})
		for range 2 * maxStalls {
			th.put(event.Claim{Epoch: th.epoch, Released: true})
			th.epoch++
			th.put(event.Claim{Epoch: th.epoch})
		}
		if err := th.resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		last[event.Done](t, th.log.events)
	})
}

func TestCrashEndsARequestIfTheAgentIsConfiguredSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := "/say first\n/tool calculator {}\n/stream 5 1"
		whole := newThread(t).say(script)
		usages := 0
		for n := 2; n < len(whole); n++ {
			th := newThread(t)
			th.agent.FailOnCrash = true
			th.say(script)
			ran := 0
			th.backend = backendFunc(func(context.Context, backend.Turn, backend.Emit) (backend.Outcome, error) {
				ran++
				return backend.Outcome{}, nil
			})
			th.takeover(nil, n)
			if err := th.resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			if whole[n-1].Body.Name() == event.NameUsage {
				usages++
			}
			if usages == 2 { // the answer is complete: only its end was missing
				last[event.Done](t, th.log.events)
				continue
			}
			failed := last[event.Error](t, th.log.events)
			if failed.Code != apierr.AgentError || !failed.Retryable || ran > 0 || len(unstopped(th.log.events)) > 0 {
				t.Errorf("after %d events: got %+v, %d turns, open blocks %v", n, failed, ran, unstopped(th.log.events))
			}
		}
	})
}

// TestFinishedStepsAreNotRepeated kills a runner after each event and counts what the next one does.
func TestFinishedStepsAreNotRepeated(t *testing.T) {
	t.Parallel()
	const script = "/say one\n/tools calculator {}; calculator {\"expression\":\"1\"}\n/say two\n/tool calculator {}\n/say three"
	synctest.Test(t, func(t *testing.T) {
		whole := newThread(t).say(script)
		turns := len(find[event.UsageSoFar](whole))
		for n := 2; n < len(whole); n++ {
			th := newThread(t)
			th.say(script)
			th.takeover(nil, n)
			ended := len(find[event.UsageSoFar](th.log.events))
			var outputs []string
			for _, o := range find[event.ToolOutput](th.log.events) {
				outputs = append(outputs, o.ToolCallID)
			}
			ran, next := 0, th.backend
			th.backend = backendFunc(func(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
				ran++
				return next.Run(ctx, turn, emit)
			})
			th.tools["calculator"] = func(_ context.Context, call backend.Call, _ func(Progress)) (Output, error) {
				if slices.Contains(outputs, call.ID) {
					t.Errorf("after %d events call %s ran again, which has its result", n, call.ID)
				}
				return Output{Status: event.ToolSuccess, Content: "42"}, nil
			}
			if err := th.resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			if ran != turns-ended {
				t.Errorf("after %d events the model spoke %d times, want %d", n, ran, turns-ended)
			}
			stops(t, n, th.log.events)
		}
	})
}

// stops checks that no text was finished twice.
func stops(t *testing.T, n int, events []event.Event) {
	t.Helper()
	var texts []string
	for _, b := range find[event.Text](events) {
		if b.Stage == event.StageStop && !b.Discarded {
			texts = append(texts, strings.TrimSpace(b.Text))
		}
	}
	if want := []string{"one", "two", "three"}; !slices.Equal(texts, want) {
		t.Errorf("after %d events the finished texts are %q, want %q", n, texts, want)
	}
}
