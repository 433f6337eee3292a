package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/openai"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

func replayResponses(c *http.Client) backend.Model {
	return openai.NewResponses(openai.Options{BaseURL: "http://provider/v1", Client: c, Retries: -1})
}

func openResponses(t *testing.T, answer http.HandlerFunc) backend.Model {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return openai.NewResponses(openai.Options{BaseURL: server.URL + "/v1", APIKey: key, Retries: -1})
}

func TestResponsesStreams(t *testing.T) {
	t.Parallel()
	backendtest.Replay(t, "testdata/responses/*.txtar", *update, replayResponses)
}

func FuzzResponsesStream(f *testing.F) {
	backendtest.AddStreams(f, "testdata/responses/*.txtar")
	f.Fuzz(func(t *testing.T, body string) { backendtest.Any(t, body, replayResponses) })
}

const (
	responseBegin = `{"type":"response.created","response":{"id":"resp_1","model":"m","status":"in_progress"}}`
	responseEnd   = `{"type":"response.completed","response":{"id":"resp_1","model":"m","status":"completed","usage":{"input_tokens":9,"output_tokens":2}}}`
)

func responseText(s string) string {
	return fmt.Sprintf(`{"type":"response.output_text.delta","item_id":"msg_0","output_index":0,"content_index":0,"delta":%q}`, s)
}

// responder answers the last item of the input, as [provider] does the last message.
func responder(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Input []struct {
			Type    string `json:"type"`
			Output  string `json:"output"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"input"`
	}
	body, _ := io.ReadAll(r.Body) // an unread body fails the test
	_ = jsonv2.Unmarshal(body, &request)
	if len(request.Input) == 0 || r.URL.Path != "/v1/responses" {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	last := request.Input[len(request.Input)-1]
	prompt := ""
	if len(last.Content) > 0 {
		prompt = last.Content[0].Text
	}
	var status int
	switch _, err := fmt.Sscanf(prompt, "status %d", &status); {
	case err == nil:
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"as you asked","type":"x","param":null,"code":null}}`)
	case prompt == "endless":
		backendtest.Endless(w, r, "data: "+responseBegin+"\n\n", "data: "+responseText("more ")+"\n\n")
	case last.Type == "function_call_output":
		stream(w, responseBegin, responseText("It is "), responseText(last.Output), responseEnd)
	default:
		backendtest.Recorded(w, "testdata/responses/"+prompt+".txtar")
	}
}

func TestResponsesConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(t *testing.T) backendtest.Subject {
		return backendtest.Subject{
			Backend: backend.Stateless(openResponses(t, responder)),
			Text:    say("text"), Thinking: say("reasoning"), Call: say("one-call"), Calls: say("tool-calls"),
			Retryable: say("status 503"), Final: say("status 400"), Endless: say("endless"), Result: "sunny", After: "sunny",
		}
	})
}

// TestResponsesRequests holds what is sent: a second turn returns the reasoning and the phases that the first one had.
func TestResponsesRequests(t *testing.T) {
	t.Parallel()
	const model = "gpt-5.6-terra"
	signed := func(members string) string {
		return `{"api":"openai-responses","model":"` + model + `",` + members + `}`
	}
	user := func(parts ...backend.Part) backend.Message { return backend.Message{Role: backend.User, Parts: parts} }
	hi := user(backend.Text{Text: "hi"})
	turns := []struct {
		name string
		turn backend.Turn
	}{
		{"a plain prompt", backend.Turn{Model: "gpt-4.1", System: "Be brief.", MaxTokens: 100, Messages: []backend.Message{hi}}},
		{"user, thread and effort", backend.Turn{Model: model, UserID: "ada", ThreadID: "thr_1", Effort: "high", Messages: []backend.Message{hi}}},
		{"options", backend.Turn{Model: "gpt-4.1", Messages: []backend.Message{hi}, Tools: []tool.Spec{
			{Name: "clock", Description: "Returns the time.", Schema: json.RawMessage(`{"type":"object"}`)}}, Request: event.RequestOptions{
			Temperature: new(0.5), TopP: new(0.9), ToolChoice: &event.ToolChoice{Mode: event.ChooseTool, Name: "clock"},
			ResponseFormat: &event.ResponseFormat{Type: event.FormatSchema, Name: "time", Schema: []byte(`{"type":"object"}`), Strict: true}}}},
		{"a second turn", backend.Turn{Model: model, Messages: []backend.Message{hi,
			{Role: backend.Assistant, Parts: []backend.Part{
				backend.Thinking{Text: "I look.", Signature: signed(`"id":"rs_0","encrypted":"ENC0"`)},
				backend.Thinking{Text: "another model's", Signature: `{"api":"openai-responses","model":"gpt-5","id":"rs_1","encrypted":"ENC1"}`},
				backend.Text{Text: "Let me see.", Signature: signed(`"phase":"commentary"`)},
				backend.Call{ID: "call_1", Name: "camera", Args: json.RawMessage(`{"zoom":2}`)}}},
			{Role: backend.Tool, Parts: []backend.Part{backend.Result{ID: "call_1", Name: "camera", Content: "a cat", Status: event.ToolSuccess,
				Media: []event.InputPart{{Type: "image", Data: []byte("png"), MediaType: "image/png"}}}}}}}},
		{"images and files", backend.Turn{Model: model, Messages: []backend.Message{user(
			backend.Media{Input: event.InputPart{Type: "image", URL: "https://example.com/cat.png"}},
			backend.Media{Input: event.InputPart{Type: "file", Data: []byte("pdf"), MediaType: "application/pdf", Name: "a.pdf"}},
			backend.Media{Input: event.InputPart{Type: "file", Data: []byte("# hi"), MediaType: "text/markdown", Name: "a.md"}})}}},
	}
	var got txtar.Archive
	for _, tt := range turns {
		var body json.RawMessage
		b := openResponses(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ = io.ReadAll(r.Body) // an unread body fails the comparison
			stream(w, responseBegin, responseText("ok"), responseEnd)
		})
		if _, err := backendtest.Ask(t.Context(), b, tt.turn); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join((*jsontext.Value)(&body).Canonicalize(), (*jsontext.Value)(&body).Indent(jsontext.WithIndent("  "))); err != nil {
			t.Fatal(err)
		}
		got.Files = append(got.Files, txtar.File{Name: tt.name, Data: append(body, '\n')})
	}
	backendtest.Golden(t, "testdata/responses-requests.txtar", *update, &got)
}

func TestResponsesHaveNoStopTexts(t *testing.T) {
	t.Parallel()
	turn := say("hi")
	turn.Request.Stop = []string{"END"}
	_, err := backendtest.Ask(t.Context(), openResponses(t, responder), turn)
	if apierr.CodeOf(err) != apierr.AgentError || !strings.Contains(err.Error(), "no option stop") {
		t.Errorf("got %v, want an error that names the option", err)
	}
}

func TestResponsesSayThatAConversationIsTooLong(t *testing.T) {
	t.Parallel()
	_, err := backendtest.Ask(t.Context(), openResponses(t, responder), say("error-too-long"))
	if !errors.Is(err, backend.ErrTooLong) {
		t.Errorf("got %v, want %v", err, backend.ErrTooLong)
	}
}
