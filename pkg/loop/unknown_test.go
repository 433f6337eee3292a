package loop

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
)

// doubtful is a thread whose tool "send" is unsafe and ends with an unknown outcome, as often as ends says.
func doubtful(t *testing.T, ends int, ask bool) (th *thread, runs *int) {
	th, runs = newThread(t), new(int)
	th.agent.AskUnknown = ask
	th.agent.Tools = append(th.agent.Tools, tool.Spec{Name: "send", Effect: tool.EffectUnsafe})
	th.tools["send"] = func(context.Context, backend.Call, func(Progress)) (Output, error) {
		*runs++
		if *runs <= ends {
			return Output{Status: event.ToolUnknown, Content: "the outcome is unknown"}, nil
		}
		return Output{Status: event.ToolSuccess, Content: "sent", Summary: "sent"}, nil
	}
	return th, runs
}

func TestModelGetsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th, runs := doubtful(t, 1, false)
		done := last[event.Done](t, th.say("/tool send {}\n/say done"))
		if done.FinishReason != event.FinishStop || done.Content[1].Status != event.ToolUnknown || *runs != 1 {
			t.Errorf("got %+v after %d runs", done, *runs)
		}
	})
}

func TestTheUserDecidesAboutAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	approve := event.ActionResult{Status: event.ActionSuccess}
	tests := []struct {
		name    string
		ends    int // runs with an unknown outcome
		answers []event.ActionResult
		status  event.ToolStatus
		runs    int
	}{
		{"runs it again", 1, []event.ActionResult{approve}, event.ToolSuccess, 2},
		{"leaves it unknown", 1, []event.ActionResult{{Status: event.ActionDenied, Error: "no"}}, event.ToolUnknown, 1},
		{"is asked each time", 2, []event.ActionResult{approve, approve}, event.ToolSuccess, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				th, runs := doubtful(t, tt.ends, true)
				events := th.say("/tool send {}\n/say done")
				seen := map[string]bool{}
				for _, answer := range tt.answers {
					action := only(t, events)
					if !action.Payload.Again || action.Kind != event.ContinueApproval || action.Payload.ArgsHash == "" || seen[action.ActionID] {
						t.Fatalf("the user is asked %+v", action)
					}
					seen[action.ActionID] = true
					if done := last[event.Done](t, events); done.FinishReason != event.FinishActionRequired {
						t.Fatalf("it ended with %s", done.FinishReason)
					}
					answer.ActionID = action.ActionID
					events = th.answer(answer)
				}
				output := find[event.ToolOutput](events)
				if len(output) != 1 || output[0].Status != tt.status || *runs != tt.runs {
					t.Errorf("got %+v after %d runs, want %s after %d", output, *runs, tt.status, tt.runs)
				}
				if tt.status == event.ToolUnknown && !strings.Contains(output[0].Content, "may or may not") {
					t.Errorf("the model reads %q", output[0].Content)
				}
				if texts(last[event.Done](t, events).Content) != "done" || len(unstopped(events)) > 0 {
					t.Errorf("the log is\n%s", lines(events))
				}
			})
		})
	}
}

func TestAnotherMessageLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th, runs := doubtful(t, 1, true)
		th.say("/tool send {}\n/say done")
		output := find[event.ToolOutput](th.say("/say something else"))
		if len(output) != 1 || output[0].Status != event.ToolUnknown || *runs != 1 {
			t.Errorf("got %+v after %d runs", output, *runs)
		}
	})
}

func TestAQuestionAboutAnUnknownOutcomeSurvivesACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		play := func() *thread {
			th, _ := doubtful(t, 100, true) // the executor keeps its record: however often it is asked
			th.say("/tool send {}\n/say done")
			return th
		}
		whole := play().log.events
		for n := 2; n < len(whole); n++ {
			th := play()
			th.takeover(nil, n)
			if err := th.resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			sameEnd(t, n, whole, th.log.events)
		}
	})
}

func only(t *testing.T, events []event.Event) event.Continuation {
	t.Helper()
	actions := find[event.Continuation](events)
	if len(actions) != 1 {
		t.Fatalf("%d actions were announced, want 1:\n%s", len(actions), lines(events))
	}
	return actions[0]
}
