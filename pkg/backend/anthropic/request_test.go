package anthropic_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

func user(parts ...backend.Part) backend.Message {
	return backend.Message{Role: backend.User, Parts: parts}
}

func said(parts ...backend.Part) backend.Message {
	return backend.Message{Role: backend.Assistant, Parts: parts}
}

func results(parts ...backend.Part) backend.Message {
	return backend.Message{Role: backend.Tool, Parts: parts}
}

func media(p event.InputPart) backend.Part { return backend.Media{Input: p} }

// TestRequests holds what is sent for each kind of message.
func TestRequests(t *testing.T) {
	t.Parallel()
	hi := user(backend.Text{Text: "hi"})
	call := func(id string) backend.Part {
		return backend.Call{ID: id, Name: "weather", Args: json.RawMessage(`{"city":"Köln"}`)}
	}
	result := func(id string, s event.ToolStatus) backend.Part {
		return backend.Result{ID: id, Name: "weather", Content: "sunny", Status: s}
	}
	turns := []struct {
		name string
		turn backend.Turn
	}{
		{"a plain prompt", backend.Turn{Messages: []backend.Message{hi}}},
		{"system, limits and thinking", backend.Turn{System: "Be brief.", MaxTokens: 100, Thinking: 4096, Messages: []backend.Message{hi}}},
		{"a small budget is raised to the least", backend.Turn{Thinking: 1, Messages: []backend.Message{hi}}},
		{"tools", backend.Turn{Messages: []backend.Message{hi}, Tools: []tool.Spec{
			{Name: "clock", Description: "Returns the time.", Schema: json.RawMessage(
				`{"type":"object","properties":{"zone":{"type":"string"}},"required":["zone"],"additionalProperties":false}`)},
			{Name: "bare"}}}},
		{"options of the request", backend.Turn{Messages: []backend.Message{hi}, Tools: []tool.Spec{{Name: "clock"}}, Request: event.RequestOptions{
			Temperature: new(1.5), TopP: new(0.5), Stop: []string{"END"}, ToolChoice: &event.ToolChoice{Mode: event.ChooseTool, Name: "clock"},
			ResponseFormat: &event.ResponseFormat{Type: event.FormatSchema, Name: "time", Schema: []byte(`{"type":"object"}`), Strict: true},
		}}},
		{"options that thinking excludes", backend.Turn{Messages: []backend.Message{hi}, Tools: []tool.Spec{{Name: "clock"}}, Thinking: 2000, Request: event.RequestOptions{
			Temperature: new(0.5), TopP: new(0.5), ToolChoice: &event.ToolChoice{Mode: event.ChooseRequired},
		}}},
		{"results of parallel calls are in one message, before what the user adds", backend.Turn{Messages: []backend.Message{
			hi, said(backend.Thinking{Text: "not signed"}, backend.Text{Text: "Let me see."}, call("call_1"), backend.Call{ID: "call_2", Name: "clock"}),
			results(result("call_1", event.ToolSuccess)), results(backend.Result{ID: "call_2", Status: event.ToolDenied}),
			user(backend.Text{Text: "and?"})}}},
		{"an adaptive model gets the effort of the budget", backend.Turn{Model: "claude-opus-4-6", Thinking: 4096, Messages: []backend.Message{hi}}},
		{"an effort, and options that the model does not take", backend.Turn{Model: "claude-opus-5", Effort: "max", Messages: []backend.Message{hi},
			Request: event.RequestOptions{Temperature: new(0.5), TopP: new(0.9)}}},
		{"an effort for a model with a budget", backend.Turn{Model: "claude-opus-4-5-20251101", Effort: "high", Messages: []backend.Message{hi}}},
		{"no thinking", backend.Turn{Model: "claude-opus-5", Effort: "none", Messages: []backend.Message{hi}}},
		{"no thinking of a model that always thinks", backend.Turn{Model: "claude-fable-5", Effort: "none", Messages: []backend.Message{hi}}},
		{"a model with preserved thinking may drop what it cannot use", backend.Turn{Model: "claude-opus-5-5", Messages: []backend.Message{
			hi, said(backend.Thinking{Signature: "sig"}, backend.Text{Text: "Let me see."},
				backend.Call{ID: "call_1", Name: "weather", Signature: "toolu_01A"}, backend.Thinking{Text: "and", Signature: "sig2"},
				backend.Call{ID: "call_2", Name: "clock", Signature: `{"api":"openai"}`}),
			results(result("call_1", event.ToolSuccess), result("call_2", event.ToolSuccess))}}},
		{"another provider's thinking is left out", backend.Turn{Model: "claude-opus-5-5", Messages: []backend.Message{
			hi, said(backend.Thinking{Text: "hm", Signature: `{"api":"openai"}`}, backend.Text{Text: "sunny"}), hi}}},
		{"a refused turn is left out from the user's message on", backend.Turn{Messages: []backend.Message{
			hi, said(backend.Text{Text: "hello"}), user(backend.Text{Text: "bad"}), said(call("call_1")), results(result("call_1", event.ToolSuccess)),
			{Role: backend.Assistant, Parts: []backend.Part{backend.Text{Text: "I can"}}, Refused: true}, user(backend.Text{Text: "good"})}}},
		{"the user is a hash", backend.Turn{UserID: "ada@example.com", Messages: []backend.Message{hi}}},
		{"a tool that the model must call turns a budget off", backend.Turn{Thinking: 2000, Messages: []backend.Message{hi}, Tools: []tool.Spec{{Name: "clock"}},
			Request: event.RequestOptions{ToolChoice: &event.ToolChoice{Mode: event.ChooseRequired}}}},
		{"signed thinking goes back", backend.Turn{Thinking: 2000, Messages: []backend.Message{
			hi, said(backend.Thinking{Text: "hm", Signature: "sig"}, backend.Thinking{Signature: "redacted:data"}, call("call_1")),
			results(result("call_1", event.ToolSuccess)), said(call("call_2")), results(result("call_2", event.ToolFailed))}}},
		{"without signed thinking before the calls, thinking stays off", backend.Turn{Thinking: 2000, Messages: []backend.Message{
			hi, said(call("call_1")), results(result("call_1", event.ToolSuccess))}}},
		{"an old turn without thinking does not matter", backend.Turn{Thinking: 2000, Messages: []backend.Message{
			hi, said(call("call_1")), results(result("call_1", event.ToolSuccess)), said(backend.Text{Text: "sunny"}), hi}}},
		{"what is empty is left out", backend.Turn{Messages: []backend.Message{
			hi, said(backend.Thinking{Text: "not signed"}, backend.Text{Text: " "}), hi}}},
		{"images and files", backend.Turn{Messages: []backend.Message{user(
			backend.Text{Text: "what is this?"},
			media(event.InputPart{Type: "image", URL: "https://example.com/cat.png"}),
			media(event.InputPart{Type: "image", Data: []byte("png"), MediaType: "image/png"}),
			media(event.InputPart{Type: "file", URL: "https://example.com/a.pdf"}),
			media(event.InputPart{Type: "file", Data: []byte("pdf"), MediaType: "application/pdf"}),
			media(event.InputPart{Type: "file", Data: []byte("text"), MediaType: "text/markdown", Name: "a.md"}),
		)}}},
		{"what the API does not accept is described in text", backend.Turn{Messages: []backend.Message{user(
			media(event.InputPart{Type: "file", URL: "https://example.com/a.txt", MediaType: "text/plain"}),
			media(event.InputPart{Type: "file", Data: []byte("\x00"), MediaType: "video/mp4", Name: "a.mp4"}),
			media(event.InputPart{Type: "image", MediaType: "image/png", Ref: &event.ObjectRef{Object: "o", Size: 7}}),
		)}}},
		{"what a tool returns is in its result", backend.Turn{Messages: []backend.Message{
			hi, said(call("call_1")), results(backend.Result{ID: "call_1", Content: "a cat", Status: event.ToolSuccess, Media: []event.InputPart{
				{Type: "image", Data: []byte("png"), MediaType: "image/png"},
				{Type: "file", Data: []byte("pdf"), MediaType: "application/pdf"},
				{Type: "file", Data: []byte("\x00"), MediaType: "video/mp4"},
			}})}}},
	}
	var got txtar.Archive
	for _, tt := range turns {
		got.Files = append(got.Files, txtar.File{Name: tt.name, Data: sent(t, tt.turn)})
	}
	backendtest.Golden(t, "testdata/requests.txtar", *update, &got)
}

// sent returns the body of the request that a turn becomes, and then the warnings that came with it.
func sent(t *testing.T, turn backend.Turn) []byte {
	t.Helper()
	turn.Model = cmp.Or(turn.Model, "m")
	var body json.RawMessage
	b := open(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("X-Api-Key"); got != key {
			t.Errorf("got key %q", got)
		}
		body, _ = io.ReadAll(r.Body) // an unread body fails the comparison
		stream(w, begin, text("ok"), end)
	})
	answer, err := backendtest.Ask(t.Context(), b, turn)
	if err != nil {
		t.Fatal(err)
	}
	if err := (*jsontext.Value)(&body).Canonicalize(); err != nil {
		t.Fatal(err)
	}
	if err := (*jsontext.Value)(&body).Indent(jsontext.WithIndent("  ")); err != nil {
		t.Fatal(err)
	}
	return slices.Concat(body, []byte("\n"), []byte(strings.Join(answer.Warnings, "\n")))
}

func TestWhatCannotBeSentIsFinal(t *testing.T) {
	t.Parallel()
	x := []backend.Message{user(backend.Text{Text: "x"})}
	tests := []struct {
		name string
		turn backend.Turn
		want string
	}{
		{"an unknown role", backend.Turn{Messages: []backend.Message{{Role: "robot"}}}, `role "robot"`},
		{"a schema that is not an object", backend.Turn{Messages: x, Tools: []tool.Spec{{Name: "t", Schema: json.RawMessage("7")}}}, "schema of tool t"},
		{"a format that the API does not have", backend.Turn{Messages: x, Request: event.RequestOptions{
			ResponseFormat: &event.ResponseFormat{Type: event.FormatJSON}}}, "use json_schema"},
		{"a forced call of a model that refuses it", backend.Turn{Model: "claude-opus-5-5", Messages: x, Tools: []tool.Spec{{Name: "t"}},
			Request: event.RequestOptions{ToolChoice: &event.ToolChoice{Mode: event.ChooseRequired}}}, "cannot be forced to call a tool"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.turn.Model = cmp.Or(tt.turn.Model, "m")
			_, err := backendtest.Ask(t.Context(), open(t, provider), tt.turn)
			f, ok := errors.AsType[*apierr.Error](err)
			if !ok || f.Code != apierr.AgentError || f.Retryable || !strings.Contains(f.Message, tt.want) {
				t.Errorf("got %v, want a final %s with %q", err, apierr.AgentError, tt.want)
			}
		})
	}
}
