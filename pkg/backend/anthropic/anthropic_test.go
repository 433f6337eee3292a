package anthropic_test

import (
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
	"github.com/agentbus/agentbus/pkg/backend/anthropic"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files anew")

const key = "sk-ant-test-0123456789abcdef"

func TestStreams(t *testing.T) {
	t.Parallel()
	backendtest.Replay(t, "testdata/streams/*.txtar", *update, func(c *http.Client) backend.Backend {
		return anthropic.New(anthropic.Options{BaseURL: "http://provider", Client: c, Retries: -1})
	})
}

func say(prompt string) backend.Turn {
	return backend.Turn{
		RequestID: "req_1", Model: "claude-sonnet-4-5",
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
			Thinking:  say("thinking"),
			Call:      say("whole-input"),
			Calls:     say("tool-calls"),
			Retryable: say("status 529"),
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
	return anthropic.New(anthropic.Options{BaseURL: server.URL, APIKey: key, Retries: -1})
}

// provider answers the last block: the name of a recorded stream, "endless", "status N", or a tool's result.
func provider(w http.ResponseWriter, r *http.Request) {
	type block struct {
		Type    string         `json:"type"`
		Text    string         `json:"text"`
		Content jsontext.Value `json:"content"`
	}
	var request struct {
		Messages []struct {
			Content []block `json:"content"`
		} `json:"messages"`
	}
	if err := json.UnmarshalRead(r.Body, &request); err != nil || r.URL.Path != "/v1/messages" {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	content := request.Messages[len(request.Messages)-1].Content
	last := content[len(content)-1]
	var status int
	switch _, err := fmt.Sscanf(last.Text, "status %d", &status); {
	case err == nil:
		w.WriteHeader(status)
		fmt.Fprint(w, problem("api_error", "as you asked"))
	case last.Type == "tool_result":
		var result []block
		if err := json.Unmarshal(last.Content, &result); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		stream(w, begin, text("It is "), text(result[0].Text), end)
	case last.Text == "endless":
		endless(w, r)
	default:
		recorded(w, last.Text)
	}
}

func problem(kind, message string) string {
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_x"}`, kind, message)
}

const (
	begin = "event: message_start\ndata: " + `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}` +
		"\n\nevent: content_block_start\ndata: " + `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n"
	end = "event: content_block_stop\ndata: " + `{"type":"content_block_stop","index":0}` +
		"\n\nevent: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}` +
		"\n\nevent: message_stop\ndata: " + `{"type":"message_stop"}` + "\n\n"
)

func text(s string) string {
	return "event: content_block_delta\ndata: " +
		fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, s) + "\n\n"
}

func stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		fmt.Fprint(w, e)
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	stream(w, begin)
	for range 600 {
		fmt.Fprint(w, text("more "))
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
	stream(w, string(archive.Files[0].Data))
}

func TestFaults(t *testing.T) {
	t.Parallel()
	answer := func(status int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	tests := []struct {
		name      string
		answer    http.HandlerFunc
		retryable bool
		after     time.Duration
		want      string
	}{
		{"400 passes the reason on", answer(400, "", problem("invalid_request_error", "max_tokens: 9 > 8")), false, 0, "max_tokens: 9 > 8"},
		{"401 names the variable, not the key", answer(401, "", problem("authentication_error", "invalid x-api-key "+key)), false, 0, "check ANTHROPIC_API_KEY"},
		{"402 is a matter of billing", answer(402, "", problem("billing_error", "no credit")), false, 0, "check its billing"},
		{"403 names the variable", answer(403, "", problem("permission_error", "no")), false, 0, "ANTHROPIC_API_KEY"},
		{"404 names the model's setting", answer(404, "", problem("not_found_error", "model: claude-9")), false, 0, "check the agent's model and ANTHROPIC_BASE_URL: model: claude-9"},
		{"413 says start anew", answer(413, "", problem("request_too_large", "big")), false, 0, "start a new thread"},
		{"429 says when", answer(429, "Retry-After: 7", problem("rate_limit_error", "slow down")), true, 7 * time.Second, "limits the rate"},
		{"500 may pass", answer(500, "", problem("api_error", "oops")), true, 0, "status 500"},
		{"502 with a web page may pass", answer(502, "Content-Type: text/html", "<html>Bad gateway</html>"), true, 0, "status 502"},
		{"529 is overload", answer(529, "", problem("overloaded_error", "Overloaded")), true, 0, "overloaded"},
		{"200 with a web page is another server", answer(200, "Content-Type: text/html", "<html>Welcome</html>"), false, 0, "check ANTHROPIC_BASE_URL"},
		{"200 with JSON is no stream", answer(200, "Content-Type: application/json", "{}"), true, 0, "cannot be read"},
		{"200 with an empty stream is cut", answer(200, "Content-Type: text/event-stream", ""), true, 0, "broke off"},
		{"a reset before the answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true, 0, "does not answer"},
		{"a reset within the answer", func(w http.ResponseWriter, _ *http.Request) {
			stream(w, begin, text("Hel"))
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
			if strings.Contains(f.Error(), key) {
				t.Errorf("the key shows in %q", f.Error())
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	b := anthropic.New(anthropic.Options{BaseURL: server.URL, Retries: -1})
	_, err := backendtest.Ask(t.Context(), b, say("hi"))
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || !f.Retryable || !strings.Contains(f.Message, "check the network and ANTHROPIC_BASE_URL") {
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
		{"a 529 is tried again", func(n int64, w http.ResponseWriter) {
			if n == 1 {
				w.WriteHeader(529)
				return
			}
			stream(w, begin, text("ok"), end)
		}, 2, false},
		{"a cut answer is not", func(_ int64, w http.ResponseWriter) { stream(w, begin, text("Hel")) }, 1, true},
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
			_, err := backendtest.Ask(t.Context(), anthropic.New(anthropic.Options{BaseURL: server.URL, Retries: 1}), say("hi"))
			if (err != nil) != tt.fails || calls.Load() != tt.calls {
				t.Errorf("got %d calls and error %v, want %d and failure %t", calls.Load(), err, tt.calls, tt.fails)
			}
		})
	}
}

func TestTheAddressMayEndWithTheVersion(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(provider))
	t.Cleanup(server.Close)
	for _, end := range []string{"", "/", "/v1", "/v1/"} {
		b := anthropic.New(anthropic.Options{BaseURL: server.URL + end, Retries: -1})
		if _, err := backendtest.Ask(t.Context(), b, say("text")); err != nil {
			t.Errorf("%q: %v", end, err)
		}
	}
}

func TestTakesNothingFromTheEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-other")
	t.Setenv("ANTHROPIC_BASE_URL", "http://other")
	var to, sent string
	b := anthropic.New(anthropic.Options{Retries: -1, Client: &http.Client{Transport: sees(func(r *http.Request) {
		to, sent = r.URL.String(), r.Header.Get("X-Api-Key")
	})}})
	if _, err := backendtest.Ask(t.Context(), b, say("hi")); err == nil {
		t.Error("got an answer from nobody")
	}
	if to != "https://api.anthropic.com/v1/messages" || sent != "" {
		t.Errorf("got a call of %s with key %q", to, sent)
	}
}

type sees func(*http.Request)

func (s sees) RoundTrip(req *http.Request) (*http.Response, error) {
	s(req)
	return nil, errors.New("nobody there")
}

func FuzzStream(f *testing.F) {
	f.Add(begin + text("hi") + end)
	f.Add("event: error\ndata: " + problem("overloaded_error", "Overloaded") + "\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		b := anthropic.New(anthropic.Options{BaseURL: "http://provider", Retries: -1, Client: &http.Client{Transport: replies(body)}})
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
