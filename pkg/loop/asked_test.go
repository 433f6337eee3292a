package loop

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
)

// asker is a thread whose tool "order" asks the user in its first run.
func asker(t *testing.T) (th *thread, runs *int) {
	th, runs = newThread(t), new(int)
	th.agent.Tools = append(th.agent.Tools, tool.Spec{Name: "order", Effect: tool.EffectUnsafe})
	th.tools["order"] = func(_ context.Context, call backend.Call, _ func(Progress)) (Output, error) {
		*runs++
		if *runs > 1 {
			return Output{Status: event.ToolSuccess, Content: "ordered", Summary: "ordered", Events: []event.Custom{{Type: "step", Data: json.RawMessage(`{"n":2}`)}}}, nil
		}
		return Output{Events: []event.Custom{{Type: "step", Data: json.RawMessage("{}")}}, Asks: &event.Continuation{ActionID: "act_size", Kind: event.ContinueInput, Payload: event.ContinuationAction{
			ToolCallID: call.ID, Tool: call.Name, Args: call.Args, Question: "Which size?", AskedIn: "req_1",
		}}}, nil
	}
	return th, runs
}

func TestTheAnswerToAToolsQuestionRepeatsTheCall(t *testing.T) {
	t.Parallel()
	for _, answer := range []event.ActionResult{
		{Status: event.ActionSuccess, Result: json.RawMessage(`{"size":3}`)}, {Status: event.ActionDenied}, {Status: event.ActionError, Error: "no form"},
	} {
		synctest.Test(t, func(t *testing.T) {
			th, runs := asker(t)
			events := th.say("/tool order {}\n/say done")
			if done := last[event.Done](t, events); done.FinishReason != event.FinishActionRequired {
				t.Fatalf("it ended with %s", done.FinishReason)
			}
			if steps := find[event.Custom](events); len(steps) != 1 {
				t.Errorf("got %+v, want the event before the question", steps)
			}
			answer.ActionID = only(t, events).ActionID
			events = th.answer(answer)
			if steps := find[event.Custom](events); len(steps) != 1 || string(steps[0].Data) != `{"n":2}` {
				t.Errorf("got %+v, want the event after the answer", steps)
			}
			output := find[event.ToolOutput](events)
			if len(output) != 1 || output[0].Content != "ordered" || *runs != 2 {
				t.Errorf("%s: got %+v after %d runs, want the result of the second", answer.Status, output, *runs)
			}
		})
	}
}

func TestAnotherMessageLeavesAToolsQuestionUnanswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th, runs := asker(t)
		th.say("/tool order {}\n/say done")
		output := find[event.ToolOutput](th.say("/say something else"))
		if len(output) != 1 || output[0].Status != event.ToolDenied || *runs != 1 {
			t.Errorf("got %+v after %d runs, want a denial after one", output, *runs)
		}
	})
}
