package transcript_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/transcript"
)

func inputOf(requestID string, b event.Input) event.Event {
	return event.Event{RequestID: requestID, Body: b}
}

func TestImportedHistoryPrecedesTheInput(t *testing.T) {
	t.Parallel()
	text := func(s string) event.InputContent { return event.UserText(s).Content }
	var s transcript.State
	s.Fold(inputOf("r1", event.Input{
		History: []event.HistoryMessage{
			{Role: event.RoleUser, Content: text("weather?")},
			{Role: event.RoleAssistant, Content: text("I look."), ToolCalls: []event.HistoryCall{
				{ID: "call_1", Name: "weather", Args: json.RawMessage(`{"city":"Oslo"}`)}, {ID: "a call", Name: "the.clock"},
			}},
			{Role: event.RoleTool, ToolCallID: "call_1", Content: text("rain")},
			{Role: event.RoleAssistant},
			{Role: event.RoleAssistant, Content: text("Rain.")},
		},
		Messages: []event.InputMessage{event.UserText("and now?")},
	}))
	odd := id.Derive(id.Call, "history", "a call")
	want := []backend.Message{
		{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "weather?"}}},
		{Role: backend.Assistant, Parts: []backend.Part{
			backend.Text{Text: "I look."}, backend.Call{ID: "call_1", Name: "weather", Args: []byte(`{"city":"Oslo"}`)},
			backend.Call{ID: odd, Name: "the_clock", Args: []byte(`{}`)},
		}},
		{Role: backend.Tool, Parts: []backend.Part{
			backend.Result{ID: "call_1", Name: "weather", Content: "rain", Media: []event.InputPart{}, Status: event.ToolSuccess},
			backend.Result{ID: odd, Name: "the_clock", Content: "this call has no result: the request ended before the tool did", Status: event.ToolAborted},
		}},
		{Role: backend.Assistant, Parts: []backend.Part{backend.Text{Text: "Rain."}}},
		{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "and now?"}}},
	}
	got := s.Messages()
	for i := range min(len(got), len(want)) {
		for k, p := range got[i].Parts {
			if r, ok := p.(backend.Result); ok && len(r.Media) == 0 {
				r.Media = want[i].Parts[k].(backend.Result).Media
				got[i].Parts[k] = r
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if waiting := s.Waiting(); len(waiting) > 0 {
		t.Errorf("imported calls wait for results: %+v", waiting)
	}
}

func TestSettingsOfARequest(t *testing.T) {
	t.Parallel()
	first := event.Input{
		Tools: []event.RequestTool{{Name: "a"}}, System: "Be brief.", Context: json.RawMessage(`{"x":1}`),
		Options: event.RequestOptions{MaxTokens: 7, ToolChoice: &event.ToolChoice{Mode: event.ChooseRequired}},
	}
	results := []event.ActionResult{{ActionID: "act"}}
	tests := []struct {
		does string
		next event.Input
		want transcript.Settings
	}{
		{"a new message begins without settings", event.Input{}, transcript.Settings{}},
		{"a steer keeps them", event.Input{SteerID: "s"}, transcript.Settings{
			Tools: first.Tools, System: first.System, Context: first.Context, Options: first.Options,
		}},
		{"action results keep all but the tool choice", event.Input{ActionResults: results}, transcript.Settings{
			Tools: first.Tools, System: first.System, Context: first.Context, Options: event.RequestOptions{MaxTokens: 7},
		}},
		{
			"action results with settings replace them",
			event.Input{ActionResults: results, Tools: []event.RequestTool{}, System: "x", Context: json.RawMessage(`{}`), Options: event.RequestOptions{MaxTokens: 8}},
			transcript.Settings{Tools: []event.RequestTool{}, System: "x", Context: json.RawMessage(`{}`), Options: event.RequestOptions{MaxTokens: 8}},
		},
	}
	for _, test := range tests {
		var s transcript.State
		s.Fold(inputOf("r1", first), inputOf("r2", test.next))
		if got := s.Settings(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.does, got, test.want)
		}
	}
}
