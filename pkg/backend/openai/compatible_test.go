package openai_test

import (
	"encoding/json"
	"errors"
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
	jsonv2 "github.com/go-json-experiment/json"
)

// messagesOf returns the messages that a turn becomes, by the backend of options.
func messagesOf(t *testing.T, o openai.Options, turn backend.Turn) []map[string]any {
	t.Helper()
	var body struct {
		Messages []map[string]any `json:"messages"`
	}
	o.Retries, o.Client = -1, backendtest.Unreachable(func(r *http.Request) {
		if err := jsonv2.UnmarshalRead(r.Body, &body); err != nil {
			t.Error(err)
		}
	})
	if _, err := backendtest.Ask(t.Context(), openai.New(o), turn); err == nil {
		t.Error("got an answer from no server")
	}
	return body.Messages
}

// conversation is two requests of a model with tool calls. The first thinking is of the model, the second of another one.
func conversation(model string) backend.Turn {
	text := func(s string) backend.Message {
		return backend.Message{Role: backend.User, Parts: []backend.Part{backend.Text{Text: s}}}
	}
	thinks := func(text, model string, rest ...backend.Part) backend.Message {
		signature := `{"api":"openai-chat","model":"` + model + `","member":"reasoning_content"}`
		return backend.Message{Role: backend.Assistant, Parts: append([]backend.Part{backend.Thinking{Text: text, Signature: signature}}, rest...)}
	}
	result := backend.Message{Role: backend.Tool, Parts: []backend.Part{backend.Result{ID: "c1", Name: "clock", Content: "12:00", Status: event.ToolSuccess}}}
	return backend.Turn{Model: model, Messages: []backend.Message{
		text("time?"), thinks("first", model, backend.Call{ID: "c1", Name: "clock"}), result, thinks("second", "other", backend.Text{Text: "noon"}),
		text("and now?"), thinks("third", model, backend.Call{ID: "c1", Name: "clock"}), result,
	}}
}

func TestThinkingGoesBackWhereTheProviderWantsIt(t *testing.T) {
	t.Parallel()
	absent := "absent"
	for _, tt := range []struct {
		name, model string
		options     openai.Options
		want        []string // reasoning_content of the assistant's messages
	}{
		{"all of DeepSeek V4, empty for another model's", "deepseek-v4", openai.Options{BaseURL: "http://x/v1"}, []string{"first", "", "third"}},
		{"that since the user spoke of GLM", "glm-4.6", openai.Options{BaseURL: "http://x/v1"}, []string{absent, absent, "third"}},
		{"none of others", "llama", openai.Options{BaseURL: "http://x/v1"}, []string{absent, absent, absent}},
		{"as configured", "llama", openai.Options{BaseURL: "http://x/v1", ReturnThinking: openai.ReturnAlways}, []string{"first", "", "third"}},
		{"none to OpenAI itself", "deepseek-v4", openai.Options{}, []string{absent, absent, absent}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, m := range messagesOf(t, tt.options, conversation(tt.model)) {
				if m["role"] != "assistant" {
					continue
				}
				thought, ok := m["reasoning_content"].(string)
				if !ok {
					thought = absent
				}
				got = append(got, thought)
			}
			if strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestDeepSeekGetsItsThinkingBack runs the two turns of a call against a server that refuses the second one without the thinking
// of the first, as DeepSeek does.
func TestDeepSeekGetsItsThinkingBack(t *testing.T) {
	t.Parallel()
	b := open(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an unread body fails the test
		switch {
		case !strings.Contains(string(body), `"role":"tool"`):
			stream(w, `{"model":"deepseek-v4","choices":[{"index":0,"delta":{"reasoning_content":"I need "},"finish_reason":null}]}`,
				`{"model":"deepseek-v4","choices":[{"index":0,"delta":{"reasoning_content":"the time."},"finish_reason":null}]}`,
				`{"model":"deepseek-v4","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"clock","arguments":"{}"}}]},"finish_reason":null}]}`,
				strings.ReplaceAll(stop, "stop", "tool_calls"))
		case strings.Contains(string(body), `"reasoning_content":"I need the time."`):
			stream(w, text("noon"), stop)
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"The reasoning_content in the thinking mode must be passed back to the API.","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`)
		}
	})
	turn := say("time?")
	turn.Model = "deepseek-v4"
	first, err := backendtest.Ask(t.Context(), b, turn)
	if err != nil {
		t.Fatal(err)
	}
	turn.Messages = append(turn.Messages,
		backend.Message{Role: backend.Assistant, Parts: []backend.Part{
			backend.Thinking{Text: first.Thinking, Signature: first.Signature}, backend.Call{ID: "c1", Name: "clock"}}},
		backend.Message{Role: backend.Tool, Parts: []backend.Part{backend.Result{ID: "c1", Content: "12:00", Status: event.ToolSuccess}}})
	second, err := backendtest.Ask(t.Context(), b, turn)
	if err != nil || second.Text != "noon" {
		t.Errorf("got %q, %v", second.Text, err)
	}
}

func TestGoogleGetsTheSignaturesOfItsCalls(t *testing.T) {
	t.Parallel()
	turn := backend.Turn{Model: "gemini-3-pro", Messages: []backend.Message{
		{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "time?"}}},
		{Role: backend.Assistant, Parts: []backend.Part{
			backend.Call{ID: "c1", Name: "a", Signature: `{"api":"openai-chat","model":"gemini-3-pro","extra":{"google":{"thought_signature":"TS"}}}`},
			backend.Call{ID: "c2", Name: "b"}}},
		{Role: backend.Assistant, Parts: []backend.Part{backend.Call{ID: "c3", Name: "c", Signature: "toolu_01A"}, backend.Call{ID: "c4", Name: "d"}}},
	}}
	for base, want := range map[string][]string{
		"https://generativelanguage.googleapis.com/v1beta/openai": {"TS", "", "skip_thought_signature_validator", ""},
		"http://router/v1": {"TS", "", "", ""},
	} {
		var got []string
		for _, m := range messagesOf(t, openai.Options{BaseURL: base}, turn)[1:] {
			text, err := json.Marshal(m["tool_calls"])
			if err != nil {
				t.Fatal(err)
			}
			var calls []struct {
				Extra struct {
					Google struct {
						Signature string `json:"thought_signature"`
					} `json:"google"`
				} `json:"extra_content"`
			}
			if err := json.Unmarshal(text, &calls); err != nil {
				t.Fatal(err)
			}
			for _, c := range calls {
				got = append(got, c.Extra.Google.Signature)
			}
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%s: got %q, want %q", base, got, want)
		}
	}
}

func TestAddressesHeadersAndNamesAreTheConfiguredOnes(t *testing.T) {
	t.Parallel()
	var to, key, own string
	b := openai.New(openai.Options{
		BaseURL: "https://res.openai.azure.com/openai/deployments/gpt-4o?api-version=2024-10-21", Name: "Azure", BaseEnv: "baseURL",
		Headers: map[string]string{"api-key": "k-1"}, Query: map[string]string{"team": "red"}, Retries: -1,
		Client: backendtest.Unreachable(func(r *http.Request) {
			body, _ := io.ReadAll(r.Body) // an unread body fails the comparison
			to, key, own = r.URL.String(), r.Header.Get("Api-Key"), string(body)
		}),
	})
	turn := say("hi")
	turn.MaxTokens = 7
	_, err := backendtest.Ask(t.Context(), b, turn)
	if want := "https://res.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21&team=red"; to != want || key != "k-1" {
		t.Errorf("got a call of %s with the key %q, want %s", to, key, want)
	}
	if !strings.Contains(own, `"max_completion_tokens":7`) {
		t.Errorf("got %s, want the newer name of the limit", own)
	}
	if f, ok := errors.AsType[*apierr.Error](err); !ok || !strings.Contains(f.Message, "Azure does not answer; check the network and baseURL") {
		t.Errorf("got %v, want the configured names", err)
	}
}

func TestARequestThatAzureFiltersEndsWithItsReason(t *testing.T) {
	t.Parallel()
	b := open(t, backendtest.Status(400, "", `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400}}`))
	answer, err := backendtest.Ask(t.Context(), b, say("hi"))
	if err != nil || answer.Outcome.Finish != event.FinishContentFilter {
		t.Errorf("got %q, %v, want %q", answer.Outcome.Finish, err, event.FinishContentFilter)
	}
}

func TestTooLongAndUnavailableAreTold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"a long conversation": {400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","code":"context_length_exceeded"}}`, backend.ErrTooLong},
		"of llama.cpp":        {400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`, backend.ErrTooLong},
		"a missing model":     {404, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`, backend.ErrUnavailable},
		"a used up quota":     {429, `{"error":{"message":"quota","code":"insufficient_quota"}}`, backend.ErrUnavailable},
	} {
		b := open(t, backendtest.Status(tt.status, "", tt.body))
		if _, err := backendtest.Ask(t.Context(), b, say("hi")); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}

func TestThinkTagsAreThinking(t *testing.T) {
	t.Parallel()
	const whole = "<think>The user greets < me.</think>Hello <b>you</b>."
	for size := 1; size <= len(whole); size++ {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			var pieces []string
			for rest := whole; rest != ""; rest = rest[min(size, len(rest)):] {
				pieces = append(pieces, text(rest[:min(size, len(rest))]))
			}
			stream(w, append(pieces, stop)...)
		}))
		answer, err := backendtest.Ask(t.Context(), openai.New(openai.Options{BaseURL: server.URL + "/v1", ThinkTags: true}), say("hi"))
		server.Close()
		if err != nil || answer.Thinking != "The user greets < me." || answer.Text != "Hello <b>you</b>." {
			t.Fatalf("in pieces of %d: got thinking %q and text %q, %v", size, answer.Thinking, answer.Text, err)
		}
	}
	plain, err := backendtest.Ask(t.Context(), open(t, func(w http.ResponseWriter, _ *http.Request) { stream(w, text(whole), stop) }), say("hi"))
	if err != nil || plain.Text != whole {
		t.Errorf("without the option: got %q, %v, want the text as it is", plain.Text, err)
	}
}
