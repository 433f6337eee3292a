package openai_test

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/openai"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files anew")

const key = "sk-test-0123456789abcdef"

func TestStreams(t *testing.T) {
	t.Parallel()
	backendtest.Replay(t, "testdata/streams/*.txtar", *update, func(c *http.Client) backend.Backend {
		return openai.New(openai.Options{BaseURL: "http://provider/v1", Client: c, Retries: -1})
	})
}

func say(prompt string) backend.Turn {
	return backend.Turn{
		RequestID: "req_1", Model: "gpt-4.1-mini",
		Messages: []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: prompt}}}},
		Tools:    []tool.Spec{{Name: "get_weather"}},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(t *testing.T) backendtest.Subject {
		return backendtest.Subject{
			Backend:   open(t, provider),
			Text:      say("text"),
			Thinking:  say("reasoning-content"),
			Call:      say("one-call"),
			Calls:     say("tool-calls"),
			Retryable: say("status 503"),
			Final:     say("status 400"),
			Endless:   say("endless"),
			Result:    "sunny",
			After:     "sunny",
		}
	})
}

func open(t *testing.T, answer http.HandlerFunc) backend.Backend {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return openai.New(openai.Options{BaseURL: server.URL + "/v1", APIKey: key, Retries: -1})
}

// provider answers the last message: the name of a recorded stream, "endless", "status N", or a tool's result.
func provider(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := json.UnmarshalRead(r.Body, &request); err != nil || r.URL.Path != "/v1/chat/completions" {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	last := request.Messages[len(request.Messages)-1]
	var status int
	switch _, err := fmt.Sscanf(last.Content, "status %d", &status); {
	case err == nil:
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"as you asked","type":"x","param":null,"code":null}}`)
	case last.Content == "endless":
		endless(w, r)
	case last.Role == "tool":
		stream(w, text("It is "), text(last.Content), stop)
	case last.Content == "one-call":
		stream(w, `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"get_weather","arguments":"{}"}}]},"finish_reason":null}]}`,
			strings.ReplaceAll(stop, "stop", "tool_calls"))
	default:
		recorded(w, last.Content)
	}
}

const stop = `{"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`

func text(s string) string {
	return fmt.Sprintf(`{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, s)
}

func stream(w http.ResponseWriter, chunks ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, c := range append(chunks, "[DONE]") {
		fmt.Fprintf(w, "data: %s\n\n", c)
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for range 600 {
		fmt.Fprintf(w, "data: %s\n\n", text("more "))
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(40 * time.Millisecond):
		}
	}
}

func recorded(w http.ResponseWriter, name string) {
	archive, err := txtar.ParseFile("testdata/streams/" + name + ".txtar")
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = w.Write(archive.Files[0].Data) // the test fails on what is missing
}

func TestFaults(t *testing.T) {
	t.Parallel()
	answer := func(status int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body) // the test fails on what is missing
		}
	}
	problem := func(message, code string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":"t","param":null,"code":%q}}`, message, code)
	}
	tests := []struct {
		name      string
		answer    http.HandlerFunc
		retryable bool
		after     time.Duration
		want      string
	}{
		{"400 passes the reason on", answer(400, "", problem("Unknown parameter: 'x'.\nSee docs", "y")), false, 0, "Unknown parameter: 'x'. See docs"},
		{"401 names the variable, not the key", answer(401, "", problem("Incorrect API key provided: "+key, "invalid_api_key")), false, 0, "check OPENAI_API_KEY"},
		{"403 names the variable", answer(403, "", problem("no", "x")), false, 0, "OPENAI_API_KEY"},
		{"404 names the model's setting", answer(404, "", problem("The model `gpt-9` does not exist", "model_not_found")), false, 0, "check the agent's model and OPENAI_BASE_URL: The model `gpt-9`"},
		{"413 says start anew", answer(413, "", ""), false, 0, "start a new thread"},
		{"429 says when", answer(429, "Retry-After: 7", problem("slow down", "rate_limit_exceeded")), true, 7 * time.Second, "limits the rate"},
		{"429 in milliseconds", answer(429, "Retry-After-Ms: 1500", problem("slow down", "rate_limit_exceeded")), true, 1500 * time.Millisecond, "limits the rate"},
		{"429 without quota stays", answer(429, "Retry-After: 7", problem("You exceeded your current quota", "insufficient_quota")), false, 0, "check its plan and billing"},
		{"500 may pass", answer(500, "", problem("oops", "x")), true, 0, "status 500"},
		{"502 with a web page may pass", answer(502, "Content-Type: text/html", "<html>Bad gateway</html>"), true, 0, "status 502"},
		{"529 is overload", answer(529, "", ""), true, 0, "overloaded"},
		{"an error that is a string", answer(404, "", `{"error":"model not found"}`), false, 0, "check the agent's model"},
		{"200 with a web page is another server", answer(200, "Content-Type: text/html", "<html>Welcome</html>"), false, 0, "check OPENAI_BASE_URL"},
		{"200 with JSON is no stream", answer(200, "Content-Type: application/json", "{}"), true, 0, "cannot be read"},
		{"200 with an empty stream is cut", answer(200, "Content-Type: text/event-stream", ""), true, 0, "broke off"},
		{"a reset before the answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true, 0, "does not answer"},
		{"a reset within the answer", func(w http.ResponseWriter, _ *http.Request) {
			stream(w, text("Hel"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, true, 0, "broke off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := backendtest.Ask(t.Context(), open(t, tt.answer), say("hi"))
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Code != fault.AgentError {
				t.Fatalf("got %v, want %s", err, fault.AgentError)
			}
			if f.Retryable != tt.retryable || f.RetryAfter != tt.after {
				t.Errorf("got retryable %t after %s, want %t after %s", f.Retryable, f.RetryAfter, tt.retryable, tt.after)
			}
			if !strings.Contains(f.Message, tt.want) {
				t.Errorf("got message %q, want it to contain %q", f.Message, tt.want)
			}
			if strings.Contains(f.Error(), key) || strings.Contains(f.Error(), base64.StdEncoding.EncodeToString([]byte(key))) {
				t.Errorf("the key shows in %q", f.Error())
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	b := openai.New(openai.Options{BaseURL: server.URL, Retries: -1})
	_, err := backendtest.Ask(t.Context(), b, say("hi"))
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || !f.Retryable || !strings.Contains(f.Message, "check the network and OPENAI_BASE_URL") {
		t.Errorf("got %v, want a retryable fault that names the variable", err)
	}
}

func TestTriesAgainOnlyBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer func(n int64, w http.ResponseWriter)
		calls  int64
		fails  bool
	}{
		{"a 503 is tried again", func(n int64, w http.ResponseWriter) {
			if n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			stream(w, text("ok"), stop)
		}, 2, false},
		{"a cut answer is not", func(_ int64, w http.ResponseWriter) { stream(w, text("Hel")) }, 1, true},
		{"a 400 is not", func(_ int64, w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) }, 1, true},
		{"a long wait is not", func(_ int64, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		}, 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tt.answer(calls.Add(1), w) }))
			t.Cleanup(server.Close)
			_, err := backendtest.Ask(t.Context(), openai.New(openai.Options{BaseURL: server.URL, Retries: 1}), say("hi"))
			if (err != nil) != tt.fails || calls.Load() != tt.calls {
				t.Errorf("got %d calls and error %v, want %d and failure %t", calls.Load(), err, tt.calls, tt.fails)
			}
		})
	}
}

func FuzzStream(f *testing.F) {
	f.Add("data: " + text("hi") + "\n\ndata: " + stop + "\n\ndata: [DONE]\n\n")
	f.Add("data: {\"error\":{\"code\":429}}\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		b := openai.New(openai.Options{BaseURL: "http://provider/v1", Retries: -1, Client: &http.Client{Transport: replies(body)}})
		if _, err := b.Run(t.Context(), say("hi"), func(backend.Chunk) error { return nil }); err != nil {
			if fault.CodeOf(err) != fault.AgentError {
				t.Errorf("got %v, want %s", err, fault.AgentError)
			}
		}
	})
}

type replies string

func (r replies) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/event-stream")
	if _, err := io.WriteString(w, string(r)); err != nil {
		return nil, err
	}
	res := w.Result()
	res.Request = req
	return res, nil
}

func TestOpenAIItselfIsTheDefault(t *testing.T) {
	t.Parallel()
	turn := say("hi")
	turn.MaxTokens = 7
	var to string
	var body jsontext.Value
	b := openai.New(openai.Options{Retries: -1, Client: &http.Client{Transport: sees(func(r *http.Request) {
		to = r.URL.String()
		body, _ = io.ReadAll(r.Body) // an unread body fails the comparison
	})}})
	if _, err := backendtest.Ask(t.Context(), b, turn); err == nil {
		t.Error("got an answer from nobody")
	}
	if to != "https://api.openai.com/v1/chat/completions" || !strings.Contains(string(body), `"max_completion_tokens":7`) {
		t.Errorf("got a call of %s with %s", to, body)
	}
}

type sees func(*http.Request)

func (s sees) RoundTrip(req *http.Request) (*http.Response, error) {
	s(req)
	return nil, errors.New("nobody there")
}
