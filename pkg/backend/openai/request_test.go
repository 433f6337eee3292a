package openai_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
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

// TestRequests holds what is sent for each kind of message.
func TestRequests(t *testing.T) {
	t.Parallel()
	user := func(parts ...backend.Part) []backend.Message {
		return []backend.Message{{Role: backend.User, Parts: parts}}
	}
	media := func(p event.InputPart) backend.Part { return backend.Media{Input: p} }
	turns := []struct {
		name string
		turn backend.Turn
	}{
		{"a plain prompt", backend.Turn{Model: "m", Messages: user(backend.Text{Text: "hi"})}},
		{"system, limits and reasoning", backend.Turn{
			Model: "m", System: "Be brief.", MaxTokens: 100, Thinking: 4096,
			Messages: user(backend.Text{Text: "one"}, backend.Text{Text: "two"})}},
		{"tools", backend.Turn{Model: "m", Messages: user(backend.Text{Text: "hi"}), Tools: []tool.Spec{
			{Name: "clock", Description: "Returns the time.", Schema: json.RawMessage(`{"type":"object","properties":{"zone":{"type":"string"}}}`)},
			{Name: "bare"}}}},
		{"options of the request", backend.Turn{Model: "m", Messages: user(backend.Text{Text: "hi"}), Tools: []tool.Spec{{Name: "clock"}}, Request: event.RequestOptions{
			Temperature: new(1.5), TopP: new(0.5), Stop: []string{"END"}, ToolChoice: &event.ToolChoice{Mode: event.ChooseTool, Name: "clock"},
			ResponseFormat: &event.ResponseFormat{Type: event.FormatSchema, Name: "time", Schema: []byte(`{"type":"object"}`), Strict: true},
		}}},
		{"options without tools", backend.Turn{Model: "m", Messages: user(backend.Text{Text: "hi"}), Request: event.RequestOptions{
			Temperature: new(0.0), ToolChoice: &event.ToolChoice{Mode: event.ChooseRequired}, ResponseFormat: &event.ResponseFormat{Type: event.FormatJSON},
		}}},
		{"a conversation with parallel calls", backend.Turn{Model: "m", Messages: append(user(backend.Text{Text: "weather?"}),
			backend.Message{Role: backend.Assistant, Parts: []backend.Part{
				backend.Thinking{Text: "never sent"}, backend.Text{Text: "Let me see."},
				backend.Call{ID: "call_1", Name: "weather", Args: json.RawMessage(`{"city":"Köln"}`)}, backend.Call{ID: "call_2", Name: "clock"}}},
			backend.Message{Role: backend.Tool, Parts: []backend.Part{
				backend.Result{ID: "call_1", Name: "weather", Content: "sunny", Status: event.ToolSuccess},
				backend.Result{ID: "call_2", Name: "clock", Status: event.ToolDenied}}},
			backend.Message{Role: backend.Assistant, Parts: []backend.Part{backend.Thinking{Text: "nothing else"}}},
		)}},
		{"images and files", backend.Turn{Model: "m", Messages: user(
			backend.Text{Text: "what is this?"},
			media(event.InputPart{Type: "image", URL: "https://example.com/cat.png"}),
			media(event.InputPart{Type: "image", Data: []byte("png"), MediaType: "image/png"}),
			media(event.InputPart{Type: "file", Data: []byte("pdf"), MediaType: "application/pdf", Name: "a.pdf"}),
			media(event.InputPart{Type: "file", Data: []byte("# hi"), MediaType: "text/markdown", Name: "a.md"}),
		)}},
		{"what the API does not accept is described in text", backend.Turn{Model: "m", Messages: user(
			media(event.InputPart{Type: "file", URL: "https://example.com/a.pdf", MediaType: "application/pdf"}),
			media(event.InputPart{Type: "file", Data: []byte("PK\x03\x04\x00"), MediaType: "application/zip", Name: "a.zip"}),
			media(event.InputPart{Type: "image", MediaType: "image/png", Ref: &event.ObjectRef{Object: "o", Size: 7}}),
		)}},
		{"what tools give is shown behind all their results", backend.Turn{Model: "m", Messages: append(user(backend.Text{Text: "look"}),
			backend.Message{Role: backend.Assistant, Parts: []backend.Part{
				backend.Call{ID: "call_1", Name: "camera"}, backend.Call{ID: "call_2", Name: "clock"}}},
			backend.Message{Role: backend.Tool, Parts: []backend.Part{
				backend.Result{ID: "call_1", Name: "camera", Content: "a cat", Status: event.ToolSuccess, Media: []event.InputPart{
					{Type: "image", Data: []byte("png"), MediaType: "image/png"}}},
				backend.Result{ID: "call_2", Name: "clock", Content: "noon", Status: event.ToolSuccess}}},
		)}},
	}
	var got txtar.Archive
	for _, tt := range turns {
		got.Files = append(got.Files, txtar.File{Name: tt.name, Data: sent(t, tt.turn)})
	}
	backendtest.Golden(t, "testdata/requests.txtar", *update, &got)
}

// sent returns the body of the request that a turn becomes.
func sent(t *testing.T, turn backend.Turn) []byte {
	t.Helper()
	var body json.RawMessage
	b := open(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+key {
			t.Errorf("got authorization %q", got)
		}
		body, _ = io.ReadAll(r.Body) // an unread body fails the comparison
		stream(w, text("ok"), stop)
	})
	if _, err := backendtest.Ask(t.Context(), b, turn); err != nil {
		t.Fatal(err)
	}
	if err := (*jsontext.Value)(&body).Canonicalize(); err != nil {
		t.Fatal(err)
	}
	if err := (*jsontext.Value)(&body).Indent(jsontext.WithIndent("  ")); err != nil {
		t.Fatal(err)
	}
	return append(body, '\n')
}

func TestWhatCannotBeSentIsFinal(t *testing.T) {
	t.Parallel()
	bad := func(m backend.Message, tools ...tool.Spec) backend.Turn {
		return backend.Turn{Model: "m", Messages: []backend.Message{m}, Tools: tools}
	}
	tests := []struct {
		name string
		turn backend.Turn
		want string
	}{
		{"an unknown role", bad(backend.Message{Role: "robot"}), `role "robot"`},
		{"a schema that is not an object", bad(say("x").Messages[0], tool.Spec{Name: "t", Schema: json.RawMessage("7")}), "schema of tool t"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := backendtest.Ask(t.Context(), open(t, provider), tt.turn)
			f, ok := errors.AsType[*apierr.Error](err)
			if !ok || f.Code != apierr.AgentError || f.Retryable || !strings.Contains(f.Message, tt.want) {
				t.Errorf("got %v, want a final %s with %q", err, apierr.AgentError, tt.want)
			}
		})
	}
}
