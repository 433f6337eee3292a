package openai_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/openai"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
)

var update = flag.Bool("update", false, "write the golden files anew")

const key = "sk-test-0123456789abcdef"

func TestStreams(t *testing.T) {
	t.Parallel()
	backendtest.Replay(t, "testdata/streams/*.txtar", *update, replay)
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
			Backend:   backend.Stateless(open(t, provider)),
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

func dial(url string, retries int) backend.Model {
	return openai.New(openai.Options{BaseURL: url + "/v1", APIKey: key, Retries: retries})
}

func replay(c *http.Client) backend.Model {
	return openai.New(openai.Options{BaseURL: "http://provider/v1", Client: c, Retries: -1})
}

func open(t *testing.T, answer http.HandlerFunc) backend.Model {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return dial(server.URL, -1)
}

// provider answers the last message: the name of a recorded stream, "endless", "status N", or a tool's result.
func provider(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := jsonv2.UnmarshalRead(r.Body, &request); err != nil || r.URL.Path != "/v1/chat/completions" {
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
		backendtest.Endless(w, r, "", "data: "+text("more ")+"\n\n")
	case last.Role == "tool":
		stream(w, text("It is "), text(last.Content), stop)
	case last.Content == "one-call":
		stream(w, `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"get_weather","arguments":"{}"}}]},"finish_reason":null}]}`,
			strings.ReplaceAll(stop, "stop", "tool_calls"))
	default:
		backendtest.Recorded(w, "testdata/streams/"+last.Content+".txtar")
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

func TestFaults(t *testing.T) {
	t.Parallel()
	answer := backendtest.Status
	problem := func(message, code string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":"t","param":null,"code":%q}}`, message, code)
	}
	backendtest.Faults(t, dial, say("hi"), key, []backendtest.Fault{
		{Name: "400 passes the reason on", Answer: answer(400, "", problem("Unknown parameter: 'x'.\nSee docs", "y")), Message: "Unknown parameter: 'x'. See docs"},
		{Name: "401 names the variable, not the key", Answer: answer(401, "", problem("Incorrect API key provided: "+key, "invalid_api_key")), Message: "check OPENAI_API_KEY"},
		{Name: "403 names the variable", Answer: answer(403, "", problem("no", "x")), Message: "OPENAI_API_KEY"},
		{Name: "404 names the model's setting", Answer: answer(404, "", problem("The model `gpt-9` does not exist", "model_not_found")), Message: "check the agent's model and OPENAI_BASE_URL: The model `gpt-9`"},
		{Name: "413 says start anew", Answer: answer(413, "", ""), Message: "start a new thread"},
		{Name: "429 says when", Answer: answer(429, "Retry-After: 7", problem("slow down", "rate_limit_exceeded")), Retryable: true, After: 7 * time.Second, Message: "limits the rate"},
		{Name: "429 in milliseconds", Answer: answer(429, "Retry-After-Ms: 1500", problem("slow down", "rate_limit_exceeded")), Retryable: true, After: 1500 * time.Millisecond, Message: "limits the rate"},
		{Name: "429 without quota stays", Answer: answer(429, "Retry-After: 7", problem("You exceeded your current quota", "insufficient_quota")), Message: "check its plan and billing"},
		{Name: "500 may pass", Answer: answer(500, "", problem("oops", "x")), Retryable: true, Message: "status 500"},
		{Name: "502 with a web page may pass", Answer: answer(502, "Content-Type: text/html", "<html>Bad gateway</html>"), Retryable: true, Message: "status 502"},
		{Name: "529 is overload", Answer: answer(529, "", ""), Retryable: true, Message: "overloaded"},
		{Name: "an error that is a string", Answer: answer(404, "", `{"error":"model not found"}`), Message: "check the agent's model"},
		{Name: "200 with a web page is another server", Answer: answer(200, "Content-Type: text/html", "<html>Welcome</html>"), Message: "check OPENAI_BASE_URL"},
		{Name: "200 with JSON is not a stream", Answer: answer(200, "Content-Type: application/json", "{}"), Retryable: true, Message: "cannot be read"},
		{Name: "200 with an empty stream is cut", Answer: answer(200, "Content-Type: text/event-stream", ""), Retryable: true, Message: "broke off"},
		{Name: "a reset before the answer", Answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Retryable: true, Message: "does not answer"},
		{Name: "a reset within the answer", Answer: func(w http.ResponseWriter, _ *http.Request) {
			stream(w, text("Hel"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, Retryable: true, Message: "broke off"},
	})
}

func TestNoResponder(t *testing.T) {
	t.Parallel()
	backendtest.NoResponder(t, dial, say("hi"), "check the network and OPENAI_BASE_URL")
}

func TestTriesAgainOnlyBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	backendtest.Retries(t, dial, say("hi"), []backendtest.Retry{
		{Name: "a 503 is tried again", Answer: func(n int64, w http.ResponseWriter) {
			if n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			stream(w, text("ok"), stop)
		}, Calls: 2},
		{Name: "a cut answer is not", Answer: func(_ int64, w http.ResponseWriter) { stream(w, text("Hel")) }, Calls: 1, Fails: true},
		{Name: "a 400 is not", Answer: func(_ int64, w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) }, Calls: 1, Fails: true},
		{Name: "a 429 for lack of quota is not", Answer: func(_ int64, w http.ResponseWriter) {
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`)
		}, Calls: 1, Fails: true},
		{Name: "a long wait is not", Answer: func(_ int64, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		}, Calls: 1, Fails: true},
	})
}

func FuzzStream(f *testing.F) {
	backendtest.AddStreams(f, "testdata/streams/*.txtar")
	f.Add("data: {\"error\":{\"code\":429}}\n\n")
	f.Fuzz(func(t *testing.T, body string) { backendtest.Any(t, body, replay) })
}

func TestOpenAIItselfIsTheDefault(t *testing.T) {
	t.Parallel()
	turn := say("hi")
	turn.MaxTokens = 7
	var to string
	var body json.RawMessage
	b := openai.New(openai.Options{Retries: -1, Client: backendtest.Unreachable(func(r *http.Request) {
		to = r.URL.String()
		body, _ = io.ReadAll(r.Body) // an unread body fails the comparison
	})})
	if _, err := backendtest.Ask(t.Context(), b, turn); err == nil {
		t.Error("got an answer without a server")
	}
	if to != "https://api.openai.com/v1/chat/completions" || !strings.Contains(string(body), `"max_completion_tokens":7`) {
		t.Errorf("got a call of %s with %s", to, body)
	}
}
