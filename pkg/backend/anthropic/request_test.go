package anthropic_test

import (
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
			{Name: "clock", Description: "Tells the time.", Schema: json.RawMessage(
				`{"type":"object","properties":{"zone":{"type":"string"}},"required":["zone"],"additionalProperties":false}`)},
			{Name: "bare"}}}},
		{"options of the request", backend.Turn{Messages: []backend.Message{hi}, Tools: []tool.Spec{{Name: "clock"}}, Request: event.RequestOptions{
			Temperature: new(1.5), TopP: new(0.5), Stop: []string{"END"}, ToolChoice: &event.ToolChoice{Mode: event.ChooseTool, Name: "clock"},
			ResponseFormat: &event.ResponseFormat{Type: event.FormatSchema, Name: "time", Schema: []byte(`{"type":"object"}`), Strict: true},
		}}},
		{"options that thinking excludes", backend.Turn{Messages: []backend.Message{hi}, Tools: []tool.Spec{{Name: "clock"}}, Thinking: 2000, Request: event.RequestOptions{
			Temperature: new(0.5), TopP: new(0.5), ToolChoice: &event.ToolChoice{Mode: event.ChooseRequired},
		}}},
		{"results of parallel calls stand in one message, before what the user adds", backend.Turn{Messages: []backend.Message{
			hi, said(backend.Thinking{Text: "not signed"}, backend.Text{Text: "Let me see."}, call("call_1"), backend.Call{ID: "call_2", Name: "clock"}),
			results(result("call_1", event.ToolSuccess)), results(backend.Result{ID: "call_2", Status: event.ToolDenied}),
			user(backend.Text{Text: "and?"})}}},
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
		{"what the API does not take is told", backend.Turn{Messages: []backend.Message{user(
			media(event.InputPart{Type: "file", URL: "https://example.com/a.txt", MediaType: "text/plain"}),
			media(event.InputPart{Type: "file", Data: []byte("\x00"), MediaType: "video/mp4", Name: "a.mp4"}),
			media(event.InputPart{Type: "image", MediaType: "image/png", Ref: &event.ObjectRef{Object: "o", Size: 7}}),
		)}}},
		{"what a tool gives stands in its result", backend.Turn{Messages: []backend.Message{
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
	turn.Model = "m"
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
	tests := []struct {
		name  string
		said  backend.Message
		tools []tool.Spec
		want  string
	}{
		{"an unknown role", backend.Message{Role: "robot"}, nil, `role "robot"`},
		{"a schema that is no object", user(backend.Text{Text: "x"}), []tool.Spec{{Name: "t", Schema: json.RawMessage("7")}}, "schema of tool t"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			turn := backend.Turn{Model: "m", Messages: []backend.Message{tt.said}, Tools: tt.tools}
			_, err := backendtest.Ask(t.Context(), open(t, provider), turn)
			f, ok := errors.AsType[*apierr.Error](err)
			if !ok || f.Code != apierr.AgentError || f.Retryable || !strings.Contains(f.Message, tt.want) {
				t.Errorf("got %v, want a final %s with %q", err, apierr.AgentError, tt.want)
			}
		})
	}
}
