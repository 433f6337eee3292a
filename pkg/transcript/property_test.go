package transcript

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"pgregory.net/rapid"
)

// log generates events of a few requests, in an order that need not make sense: a fold must bear whatever it reads.
func log() *rapid.Generator[[]event.Event] {
	return rapid.Custom(func(t *rapid.T) []event.Event {
		var events []event.Event
		for request := range rapid.IntRange(1, 3).Draw(t, "requests") {
			for range rapid.IntRange(0, 30).Draw(t, "events") {
				events = append(events, event.Event{
					ID:        event.NewCursor("t", uint64(len(events))),
					RequestID: fmt.Sprintf("req_%d", request), Time: time.Unix(int64(len(events)), 0).UTC(),
					Body: body(t),
				})
			}
		}
		return events
	})
}

func body(t *rapid.T) event.Body {
	index := rapid.IntRange(0, 5).Draw(t, "index")
	call := fmt.Sprintf("call_%d", rapid.IntRange(0, 3).Draw(t, "call"))
	block := event.Block{
		BlockID: fmt.Sprintf("b%d", index), Stage: rapid.SampledFrom([]event.Stage{event.StageStart, event.StageDelta, event.StageStop}).Draw(t, "stage"),
	}
	text, delta := "", ""
	switch block.Stage {
	case event.StageStart:
		block.BlockIndex = &index
	case event.StageDelta:
		block.DeltaIndex, delta = &index, "delta"
	default:
		text = rapid.SampledFrom([]string{"", "text"}).Draw(t, "text")
		block.Discarded = rapid.IntRange(0, 5).Draw(t, "discarded") == 0
	}
	status := rapid.SampledFrom([]event.ToolStatus{event.ToolSuccess, event.ToolDenied}).Draw(t, "status")
	args := json.RawMessage(`{"a":1}`)
	return rapid.SampledFrom([]event.Body{
		event.Text{Block: block, Delta: delta, Text: text},
		event.Thinking{Block: block, Delta: delta, Thinking: text, Signature: text},
		event.ToolCall{Block: block, ToolCallID: call, Tool: "calculator", Delta: delta, Args: args},
		event.ToolResult{Block: block, ToolCallID: call, Tool: "calculator", Delta: delta, Status: status},
		event.ToolOutput{ToolCallID: call, Status: status, Content: "42"},
		event.Continuation{ActionID: "act_" + call, Kind: event.ContinueTool, Payload: event.ContinuationAction{ToolCallID: call}},
		event.Input{ThreadID: "thr_1", Messages: []event.InputMessage{event.UserText("hi")},
			ActionResults: []event.ActionResult{{ActionID: "act_" + call, Status: event.ActionSuccess}}},
		event.FinalAnswer{Block: block, Delta: delta, Content: text},
		event.Plan{Stage: block.Stage, ToolCallID: call},
		event.Custom{Type: "x", ToolCallID: call},
		event.UsageSoFar{Turns: index + 1},
		event.Claim{Epoch: uint64(index)},
		event.Subagent{ToolCallID: call, AgentID: "helper", Inner: json.RawMessage(fmt.Sprintf(
			`{"event":"usage","id":"k-%d","requestId":"req_%s","timestamp":"2026-03-14T09:26:53.589Z","inputTokens":%d,"outputTokens":1,"turns":1}`,
			index, call, index*10))},
		event.Done{MessageID: "msg_1", Content: []event.Content{}},
	}).Draw(t, "body")
}

func fold(events []event.Event) *State {
	s := new(State)
	s.Fold(events...)
	return s
}

func TestFoldIsTheSameInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := log().Draw(t, "log")
		cut := rapid.IntRange(0, len(events)).Draw(t, "cut")
		s := fold(events[:cut])
		s.Messages() // looking does not change anything
		s.Content()
		s.Open()
		s.Waiting()
		s.Fold(events[cut:]...)
		if want := fold(events); !reflect.DeepEqual(s, want) {
			t.Errorf("got %+v\nwant %+v", s, want)
		}
	})
}

func TestFoldIsTheSameOffTheWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := log().Draw(t, "log")
		read := make([]event.Event, len(events))
		for i, e := range events {
			line, err := event.Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			if read[i], err = event.Decode(line); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := fold(read), fold(events); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	})
}

func TestDeltasDoNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := log().Draw(t, "log")
		var without []event.Event
		for _, e := range events {
			if line, err := event.Encode(e); err != nil || !isDelta(line) {
				without = append(without, e)
			}
		}
		a, b := fold(events), fold(without)
		if len(events) == 0 || len(without) == 0 || events[len(events)-1].RequestID != without[len(without)-1].RequestID {
			return // another request is the newest one
		}
		if !reflect.DeepEqual(a.Messages(), b.Messages()) || !reflect.DeepEqual(a.Content(), b.Content()) ||
			!reflect.DeepEqual(a.Waiting(), b.Waiting()) {
			t.Errorf("got %+v\nwant %+v", b, a)
		}
	})
}

func isDelta(line []byte) bool {
	var stage struct {
		Stage event.Stage `json:"stage"`
	}
	return unmarshal(line, &stage) == nil && stage.Stage == event.StageDelta
}

func TestEveryCallHasItsResult(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		messages := fold(log().Draw(t, "log")).Messages()
		for i, m := range messages {
			calls, results := 0, 0
			for _, p := range m.Parts {
				if _, ok := p.(backend.Call); ok {
					calls++
				}
			}
			if i+1 < len(messages) && messages[i+1].Role == backend.Tool {
				results = len(messages[i+1].Parts)
			}
			if m.Role == backend.Assistant && calls != results {
				t.Fatalf("message %d has %d calls and %d results", i, calls, results)
			}
			if len(m.Parts) == 0 {
				t.Fatalf("message %d is empty", i)
			}
		}
	})
}
