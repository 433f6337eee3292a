package httpagent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/httpagent"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/schemas"
	"github.com/santhosh-tekuri/jsonschema/v6"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var update = flag.Bool("update", false, "write the golden files")

func turn(text string) backend.Turn {
	return backend.Turn{
		RequestID: "req_1", ThreadID: "thr_1", AgentID: "support", Attempt: 1,
		Messages: []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: text}}}},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(t *testing.T) backendtest.Subject {
		return backendtest.Subject{
			Backend: httpagent.New(httpagent.Options{URL: agent(t).URL}),
			Text:    turn("text"), Thinking: turn("thinking"), Call: turn("call"), Calls: turn("calls"), Tools: turn("tools"),
			Retryable: turn("later"), Final: turn("never"), Endless: turn("endless"),
			Resumes: true, Result: "noon", After: "it is a success noon",
		}
	})
}

// model runs each turn in a new session.
type model struct{ backend backend.Backend }

func (m model) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	session, err := m.backend.Start(ctx, backend.Start{})
	if err != nil {
		return backend.Outcome{}, err
	}
	return session.Send(ctx, turn, emit)
}

func open(client *http.Client) backend.Model {
	return model{httpagent.New(httpagent.Options{URL: "http://agent.example/turns", Client: client, Retries: -1})}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	backendtest.Replay(t, "testdata/streams/*.txtar", *update, open)
}

func FuzzStream(f *testing.F) {
	backendtest.AddStreams(f, "testdata/streams/*.txtar")
	f.Fuzz(func(t *testing.T, stream string) { backendtest.Any(t, stream, open) })
}

func TestQuestionsWaitForTheNextTurn(t *testing.T) {
	t.Parallel()
	a, err := backendtest.Ask(t.Context(), model{httpagent.New(httpagent.Options{URL: agent(t).URL})}, turn("ask"))
	if err != nil {
		t.Fatal(err)
	}
	want := []backendtest.Call{
		{Index: 0, Name: "deploy", Gate: backend.GateAgentApproval, Args: `{"to":"prod"}`, Signature: "x"},
		{Index: 1, Name: "ask_user", Gate: backend.GateInput, Args: `{"question":"when?"}`, Signature: "y"},
	}
	if len(a.Calls) != 2 || a.Calls[0] != want[0] || a.Calls[1] != want[1] || a.Outcome.Finish != event.FinishToolCalls {
		t.Errorf("got %+v and %q, want %+v", a.Calls, a.Outcome.Finish, want)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	server := agent(t)
	for _, tt := range []struct {
		name, said string
		retryable  bool
		cut        bool
		message    string
	}{
		{"an error of the agent", "never", false, false, "failed: no such customer"},
		{"an error that may pass", "later", true, false, "failed: no capacity"},
		{"an answer without an end", "cut", true, true, "broke off"},
		{"a status that may pass", "full", true, false, "has a problem (status 503)"},
		{"a status that stays", "refused", false, false, "unknown customer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := backendtest.Ask(t.Context(), model{httpagent.New(httpagent.Options{URL: server.URL})}, turn(tt.said))
			e, ok := errors.AsType[*apierr.Error](err)
			if !ok || e.Retryable != tt.retryable || errors.Is(err, backend.ErrCut) != tt.cut || !strings.Contains(e.Message, tt.message) {
				t.Errorf("got %v, want %q, retryable %t, cut %t", err, tt.message, tt.retryable, tt.cut)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const key = "hunter2-secret"
	start := func(url string, retries int) backend.Model {
		return model{httpagent.New(httpagent.Options{URL: url, APIKey: key, KeyEnv: "SUPPORT_KEY", Retries: retries})}
	}
	stream := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, body)
		}
	}
	backendtest.Faults(t, start, turn("x"), key, []backendtest.Fault{
		{Name: "a refused key", Answer: backendtest.Status(401, "", ""), Message: "check SUPPORT_KEY"},
		{Name: "no such path", Answer: backendtest.Status(404, "", ""), Message: "check the agent's model and url"},
		{Name: "a redirect", Answer: backendtest.Status(307, "Location: /other", ""), Message: "write that address under url"},
		{Name: "a rate limit", Answer: backendtest.Status(429, "Retry-After: 7", ""), Retryable: true, After: 7 * time.Second, Message: "limits the rate"},
		{Name: "a page", Answer: stream("text/html", "<html>"), Message: "a web page answers"},
		{Name: "another type", Answer: stream("text/plain", "hello"), Message: `the type of its answer is "text/plain"`},
		{Name: "not JSON", Answer: stream("application/x-ndjson", "hello\n"), Retryable: true, Message: "cannot be read"},
		{Name: "no type", Answer: stream("application/x-ndjson", "{}\n"), Message: "has no type"},
		{Name: "a line that is too long", Answer: stream("application/x-ndjson", `{"type":"`+strings.Repeat("x", 5<<20)), Message: "is larger than"},
		{Name: "progress of no tool", Answer: stream("application/x-ndjson", `{"type":"tool_progress","id":"t","delta":"x"}`), Message: "does not run"},
		{Name: "a tool twice", Answer: stream("application/x-ndjson", strings.Repeat(`{"type":"tool_started","id":"t","name":"x"}`+"\n", 2)), Message: "starts twice"},
		{Name: "an unknown status", Answer: stream("application/x-ndjson", `{"type":"tool_started","id":"t","name":"x"}`+"\n"+`{"type":"tool_ended","id":"t","status":"fine"}`), Message: `status "fine"`},
		{Name: "a call without a name", Answer: stream("application/x-ndjson", `{"type":"tool_call","id":"t"}`), Message: "has no name"},
		{Name: "a call without an id", Answer: stream("application/x-ndjson", `{"type":"tool_call","name":"t"}`), Message: "has an id of 0 bytes"},
		{Name: "arguments that are a list", Answer: stream("application/x-ndjson", `{"type":"approval","id":"t","name":"x","args":[]}`), Message: "are not an object"},
		{Name: "a session that is too long", Answer: stream("application/x-ndjson", `{"type":"session","session":"`+strings.Repeat("x", 40<<10)+`"}`), Message: "its session has"},
		{Name: "a custom event with a name of ours", Answer: stream("application/x-ndjson", `{"type":"custom","name":"text"}`), Message: "choose another"},
	})
	backendtest.NoResponder(t, start, turn("x"), "does not answer")
	backendtest.Retries(t, start, turn("x"), []backendtest.Retry{
		{Name: "a full agent", Calls: 2, Answer: func(n int64, w http.ResponseWriter) {
			if n == 1 {
				w.Header().Set("Retry-After", "0.01")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			stream("application/x-ndjson", `{"type":"end"}`)(w, nil)
		}},
		{Name: "an agent that failed", Calls: 1, Fails: true, Answer: func(_ int64, w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }},
		{Name: "an agent that wants to be left alone for long", Calls: 1, Fails: true, Answer: func(_ int64, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		}},
	})
}

func TestASilentAgentIsStopped(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	_, err := backendtest.Ask(t.Context(), model{httpagent.New(httpagent.Options{URL: server.URL, Quiet: 50 * time.Millisecond})}, turn("x"))
	if e, ok := errors.AsType[*apierr.Error](err); !ok || !e.Retryable || errors.Is(err, backend.ErrCut) || !strings.Contains(e.Message, "stopped in the middle") {
		t.Errorf("got %v, want a retryable error that is not a cut", err)
	}
}

// everything is a turn with all that a turn can have.
func everything() backend.Turn {
	all := turn("look at this")
	all.Messages[0].Parts = append(all.Messages[0].Parts,
		backend.Media{Input: event.InputPart{Type: "image", Data: []byte("png"), MediaType: "image/png", Name: "a.png"}})
	all.Messages = append(all.Messages,
		backend.Message{Role: backend.Assistant, Parts: []backend.Part{
			backend.Thinking{Text: "hm"}, backend.Text{Text: "I look"}, backend.Call{ID: "call_1", Name: "clock", Args: json.RawMessage(`{"zone":"UTC"}`), Signature: "a"},
		}},
		backend.Message{Role: backend.Tool, Parts: []backend.Part{
			backend.Result{ID: "call_1", Name: "clock", Content: "noon", Status: event.ToolSuccess, Media: []event.InputPart{{Type: "image", URL: "https://x.example/a.png"}}},
		}},
	)
	temperature := 0.5
	all.UserID, all.Model, all.System, all.MaxTokens, all.Known, all.Attempt = "u1", "m1", "be brief", 100, 1, 2
	all.Tools = []tool.Spec{{Name: "clock", Description: "the time", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "pick", Client: true}}
	all.Request, all.Options = event.RequestOptions{Temperature: &temperature}, json.RawMessage(`{"context":{"tier":"gold"}}`)
	all.Limits = backend.Limits{Turns: 3, Tokens: 1000, CostUSD: 0.5}
	return all
}

func TestTheRequestIsSignedAndComplete(t *testing.T) {
	t.Parallel()
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	verifier, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err != nil || r.Header.Get(httpagent.VersionHeader) != "1" || r.Header.Get("X-Team") != "blue" || r.URL.RawQuery != "a=1&b=2" ||
			r.Header.Get("Authorization") != "Bearer k" || r.Header.Get("webhook-id") != "req_1.3.2" {
			http.Error(w, "unsigned, or without a header", http.StatusBadRequest)
			return
		}
		got <- body
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"end\"}\n\n")
	}))
	t.Cleanup(server.Close)
	b := httpagent.New(httpagent.Options{
		URL: server.URL + "/x?a=1", Query: map[string]string{"b": "2"}, Headers: map[string]string{"X-Team": "blue"}, APIKey: "k", SigningKey: key,
	})
	session, err := b.Start(t.Context(), backend.Start{State: backend.State{ID: "s1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Send(t.Context(), everything(), func(backend.Chunk) error { return nil }); err != nil {
		t.Fatal(err)
	}
	body := <-got
	fits(t, "request", body)
	backendtest.Golden(t, "testdata/request.txtar", *update, archive("request.json", body))
}

// fits checks a value against a schema of the contract.
func fits(t *testing.T, name string, value []byte) {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	add := func(file string) string {
		address := "https://github.com/agentbus/agentbus/schemas/" + file
		data, err := schemas.FS.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err := errors.Join(err, compiler.AddResource(address, document)); err != nil {
			t.Fatal(err)
		}
		return address
	}
	add("common.json")
	schema, err := compiler.Compile(add("agent/" + name + ".json"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err := errors.Join(err, schema.Validate(document)); err != nil {
		t.Errorf("%s\ndoes not fit %s.json: %v", value, name, err)
	}
}

func TestTheBackendReadsEveryExampleOfTheContract(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(schemas.FS, "agent/examples/chunk.*.json")
	if err != nil || len(files) < 15 {
		t.Fatalf("got the examples %q, %v", files, err)
	}
	for _, file := range files {
		t.Run(path.Base(file), func(t *testing.T) {
			t.Parallel()
			example, err := schemas.FS.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			kind := strings.Split(path.Base(file), ".")[1]
			lines := map[string]string{
				"tool_progress": `{"type":"tool_started","id":"t1","name":"x"}`, "tool_ended": `{"type":"tool_started","id":"t1","name":"x"}`,
			}[kind] + "\n" + string(example) + map[string]string{"chunk.tool_call.delta.json": `{"type":"tool_call","id":"a","delta":"1}"}` + "\n"}[path.Base(file)] +
				`{"type":"end"}`
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-ndjson")
				_, _ = io.WriteString(w, lines)
			}))
			t.Cleanup(server.Close)
			a, err := backendtest.Ask(t.Context(), model{httpagent.New(httpagent.Options{URL: server.URL})}, turn("x"))
			if (err != nil) != (kind == "error") {
				t.Fatalf("got %v", err)
			}
			if len(a.Chunks) == 0 && kind != "end" && kind != "error" {
				t.Errorf("the chunk has no effect")
			}
		})
	}
}

func TestAKeyThatCannotSignIsReported(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "whsec_%%%"} {
		b := httpagent.New(httpagent.Options{URL: "http://127.0.0.1:1", SigningKey: key, SigningEnv: "SUPPORT_SIGNING_KEY"})
		err := backend.Available(t.Context(), b)
		if _, sent := backendtest.Ask(t.Context(), model{b}, turn("x")); err == nil || !strings.Contains(err.Error(), "set SUPPORT_SIGNING_KEY") || sent == nil {
			t.Errorf("key %q: got %v and %v, want an error that names the variable", key, err, sent)
		}
	}
}
