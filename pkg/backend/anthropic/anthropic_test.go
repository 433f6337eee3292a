package anthropic_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/anthropic"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
)

var update = flag.Bool("update", false, "write the golden files anew")

const key = "sk-ant-test-0123456789abcdef"

func TestStreams(t *testing.T) {
	t.Parallel()
	backendtest.Replay(t, "testdata/streams/*.txtar", *update, replay)
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
			Backend:   backend.Stateless(open(t, provider)),
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

func dial(url string, retries int) backend.Model {
	return anthropic.New(anthropic.Options{BaseURL: url, APIKey: key, Retries: retries})
}

func replay(c *http.Client) backend.Model {
	return anthropic.New(anthropic.Options{BaseURL: "http://provider", Client: c, Retries: -1})
}

func open(t *testing.T, answer http.HandlerFunc) backend.Model {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return dial(server.URL, -1)
}

// provider answers the last block: the name of a recorded stream, "endless", "status N", or a tool's result.
func provider(w http.ResponseWriter, r *http.Request) {
	type block struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	var request struct {
		Messages []struct {
			Content []block `json:"content"`
		} `json:"messages"`
	}
	if err := jsonv2.UnmarshalRead(r.Body, &request); err != nil || r.URL.Path != "/v1/messages" {
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
		if err := jsonv2.Unmarshal(last.Content, &result); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		stream(w, begin, text("It is "), text(result[0].Text), end)
	case last.Text == "endless":
		backendtest.Endless(w, r, begin, text("more "))
	default:
		backendtest.Recorded(w, "testdata/streams/"+last.Text+".txtar")
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

func TestFaults(t *testing.T) {
	t.Parallel()
	answer := backendtest.Status
	backendtest.Faults(t, dial, say("hi"), key, []backendtest.Fault{
		{Name: "400 passes the reason on", Answer: answer(400, "", problem("invalid_request_error", "max_tokens: 9 > 8")), Message: "max_tokens: 9 > 8"},
		{Name: "401 names the variable, not the key", Answer: answer(401, "", problem("authentication_error", "invalid x-api-key "+key)), Message: "check ANTHROPIC_API_KEY"},
		{Name: "402 is a matter of billing", Answer: answer(402, "", problem("billing_error", "no credit")), Message: "check its billing"},
		{Name: "403 names the variable", Answer: answer(403, "", problem("permission_error", "no")), Message: "ANTHROPIC_API_KEY"},
		{Name: "404 names the model's setting", Answer: answer(404, "", problem("not_found_error", "model: claude-9")), Message: "check the agent's model and ANTHROPIC_BASE_URL: model: claude-9"},
		{Name: "413 says start anew", Answer: answer(413, "", problem("request_too_large", "big")), Message: "start a new thread"},
		{Name: "429 says when", Answer: answer(429, "Retry-After: 7", problem("rate_limit_error", "slow down")), Retryable: true, After: 7 * time.Second, Message: "limits the rate"},
		{Name: "500 may pass", Answer: answer(500, "", problem("api_error", "oops")), Retryable: true, Message: "status 500"},
		{Name: "502 with a web page may pass", Answer: answer(502, "Content-Type: text/html", "<html>Bad gateway</html>"), Retryable: true, Message: "status 502"},
		{Name: "529 is overload", Answer: answer(529, "", problem("overloaded_error", "Overloaded")), Retryable: true, Message: "overloaded"},
		{Name: "200 with a web page is another server", Answer: answer(200, "Content-Type: text/html", "<html>Welcome</html>"), Message: "check ANTHROPIC_BASE_URL"},
		{Name: "200 with JSON is not a stream", Answer: answer(200, "Content-Type: application/json", "{}"), Retryable: true, Message: "cannot be read"},
		{Name: "200 with an empty stream is cut", Answer: answer(200, "Content-Type: text/event-stream", ""), Retryable: true, Message: "broke off"},
		{Name: "a reset before the answer", Answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Retryable: true, Message: "does not answer"},
		{Name: "a reset within the answer", Answer: func(w http.ResponseWriter, _ *http.Request) {
			stream(w, begin, text("Hel"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, Retryable: true, Message: "broke off"},
	})
}

func TestNoResponder(t *testing.T) {
	t.Parallel()
	backendtest.NoResponder(t, dial, say("hi"), "check the network and ANTHROPIC_BASE_URL")
}

func TestTriesAgainOnlyBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	backendtest.Retries(t, dial, say("hi"), []backendtest.Retry{
		{Name: "a 529 is tried again", Answer: func(n int64, w http.ResponseWriter) {
			if n == 1 {
				w.WriteHeader(529)
				return
			}
			stream(w, begin, text("ok"), end)
		}, Calls: 2},
		{Name: "a cut answer is not", Answer: func(_ int64, w http.ResponseWriter) { stream(w, begin, text("Hel")) }, Calls: 1, Fails: true},
		{Name: "a 400 is not", Answer: func(_ int64, w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) }, Calls: 1, Fails: true},
		{Name: "a long wait is not", Answer: func(_ int64, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		}, Calls: 1, Fails: true},
	})
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
	b := anthropic.New(anthropic.Options{Retries: -1, Client: backendtest.Unreachable(func(r *http.Request) {
		to, sent = r.URL.String(), r.Header.Get("X-Api-Key")
	})})
	if _, err := backendtest.Ask(t.Context(), b, say("hi")); err == nil {
		t.Error("got an answer without a server")
	}
	if to != "https://api.anthropic.com/v1/messages" || sent != "" {
		t.Errorf("got a call of %s with key %q", to, sent)
	}
}

func FuzzStream(f *testing.F) {
	backendtest.AddStreams(f, "testdata/streams/*.txtar")
	f.Add("event: error\ndata: " + problem("overloaded_error", "Overloaded") + "\n\n")
	f.Fuzz(func(t *testing.T, body string) { backendtest.Any(t, body, replay) })
}
