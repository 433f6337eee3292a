package loop

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// recorder is a backend that keeps the conversation of each turn and answers with the chunks of that turn.
func recorder(seen *[][]backend.Message, answers []backend.Outcome, chunks ...[]backend.Chunk) backend.Model {
	return backendFunc(func(_ context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
		n := len(*seen)
		*seen = append(*seen, turn.Messages)
		for _, c := range chunks[n] {
			if err := emit(c); err != nil {
				return backend.Outcome{}, err
			}
		}
		return answers[n], nil
	})
}

func TestSignaturesReturnWithTheirBlocks(t *testing.T) {
	t.Parallel()
	var seen [][]backend.Message
	th := newThread(t)
	th.backend = recorder(&seen, []backend.Outcome{{Finish: event.FinishToolCalls}, {Finish: event.FinishStop}}, []backend.Chunk{
		backend.Signature("hidden"),
		backend.TextDelta("Let me "), backend.TextDelta("see."), backend.TextSignature("commentary"),
		backend.TextDelta("Calculating."), backend.TextSignature("second"),
		backend.CallStart{Name: "calculator"}, backend.CallSignature{Signature: "sig-1"}, backend.CallDelta{Args: "{}"},
		backend.ThinkingDelta("and"), backend.Signature("between"),
		backend.CallStart{Index: 1, Name: "calculator"}, backend.CallDelta{Index: 1, Args: "{}"},
	}, []backend.Chunk{backend.TextDelta("42")})
	done := last[event.Done](t, th.say("what is it?"))
	if first := done.Content[0]; first.Type != event.ContentText {
		t.Errorf("got %+v as the first content, want the text: hidden thinking has none", first)
	}
	said := seen[1][1].Parts
	want := []backend.Part{
		backend.Thinking{Signature: "hidden"},
		backend.Text{Text: "Let me see.", Signature: "commentary"},
		backend.Text{Text: "Calculating.", Signature: "second"},
		backend.Call{Name: "calculator", Args: json.RawMessage("{}"), Signature: "sig-1"},
		backend.Thinking{Text: "and", Signature: "between"},
		backend.Call{Name: "calculator", Args: json.RawMessage("{}")},
	}
	for i, p := range said {
		if c, ok := p.(backend.Call); ok {
			c.ID = ""
			said[i] = c
		}
	}
	if !reflect.DeepEqual(said, want) {
		t.Errorf("got %+v, want %+v", said, want)
	}
}

func TestARefusedTurnIsMarked(t *testing.T) {
	t.Parallel()
	for name, chunks := range map[string][]backend.Chunk{
		"with what it said": {backend.TextDelta("I can")},
		"without content":   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen [][]backend.Message
			th := newThread(t)
			th.backend = recorder(&seen, []backend.Outcome{{Finish: event.FinishToolCalls}, {Finish: event.FinishRefusal}, {Finish: event.FinishStop}},
				[]backend.Chunk{backend.CallStart{Name: "calculator"}, backend.CallDelta{Args: "{}"}}, chunks, []backend.Chunk{backend.TextDelta("ok")})
			if done := last[event.Done](t, th.say("something bad")); done.FinishReason != event.FinishRefusal {
				t.Errorf("got %q, want %q", done.FinishReason, event.FinishRefusal)
			}
			th.say("something else")
			var roles []backend.Role
			var refused []int
			for i, m := range seen[2] {
				roles = append(roles, m.Role)
				if m.Refused {
					refused = append(refused, i)
				}
			}
			want := []backend.Role{backend.User, backend.Assistant, backend.Tool, backend.Assistant, backend.User}
			if !reflect.DeepEqual(roles, want) || !reflect.DeepEqual(refused, []int{3}) {
				t.Errorf("got roles %v, refused %v, want %v and only message 3", roles, refused, want)
			}
		})
	}
}
