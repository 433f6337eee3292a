package a2a_test

import (
	"context"
	"encoding/json"
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
	"github.com/agentbus/agentbus/pkg/backend/a2a"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

func turn(text string) backend.Turn {
	return backend.Turn{RequestID: "req_1", ThreadID: "thr_1", AgentID: "support", Attempt: 1, Messages: []backend.Message{user(text)}}
}

func user(text string) backend.Message {
	return backend.Message{Role: backend.User, Parts: []backend.Part{backend.Text{Text: text}}}
}

func said(parts ...backend.Part) backend.Message {
	return backend.Message{Role: backend.Assistant, Parts: parts}
}

func result(id, name string, status event.ToolStatus, content string) backend.Message {
	return backend.Message{Role: backend.Tool, Parts: []backend.Part{backend.Result{ID: id, Name: name, Status: status, Content: content}}}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(t *testing.T) backendtest.Subject {
		return backendtest.Subject{
			Backend: a2a.New(a2a.Options{URL: agent(t).URL}),
			Text:    turn("text"), Thinking: turn("thinking"), Tools: turn("tools"),
			Retryable: turn("later"), Final: turn("never"), Endless: turn("endless"), Resumes: true,
		}
	})
}

// model runs each turn in a new session.
type model struct{ backend backend.Backend }

func (m model) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	session, err := m.backend.Start(ctx, backend.Start{ThreadID: "thr_1"})
	if err != nil {
		return backend.Outcome{}, err
	}
	if len(turn.Messages) == 0 {
		turn.Messages = []backend.Message{user("x")}
	}
	return session.Send(ctx, turn, emit)
}

// carded serves the card, and leaves calls to another transport.
type carded struct{ next http.RoundTripper }

func (c carded) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return c.next.RoundTrip(req)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(card)), Request: req}, nil
}

func open(client *http.Client) backend.Model {
	return model{a2a.New(a2a.Options{URL: "http://agent.example/", Client: &http.Client{Transport: carded{client.Transport}}, Retries: -1})}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	backendtest.Replay(t, "testdata/streams/*.txtar", *update, open)
}

func FuzzStream(f *testing.F) {
	backendtest.AddStreams(f, "testdata/streams/*.txtar")
	f.Fuzz(func(t *testing.T, stream string) { backendtest.Any(t, stream, open) })
}

func FuzzCard(f *testing.F) {
	f.Add(card)
	f.Fuzz(func(t *testing.T, text string) {
		client := &http.Client{Transport: answers(text)}
		_, err := model{a2a.New(a2a.Options{URL: "http://agent.example/", Client: client, Retries: -1})}.Run(t.Context(), turn("x"), func(backend.Chunk) error { return nil })
		if err == nil {
			t.Error("got an answer, want an error: the agent has nothing but its card")
		}
	})
}

// answers is a server that responds to each request with a text.
type answers string

func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != "agent.example" {
		return nil, fmt.Errorf("the request goes to %s", req.URL.Host)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a))), Request: req}, nil
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const key = "hunter2-secret"
	start := func(url string, retries int) backend.Model {
		return model{a2a.New(a2a.Options{URL: url, APIKey: key, KeyEnv: "SUPPORT_KEY", Retries: retries})}
	}
	with := func(card string, answer http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, card)
				return
			}
			answer(w, r)
		}
	}
	stream := func(list ...string) http.HandlerFunc {
		return with(card, func(w http.ResponseWriter, _ *http.Request) { updates(w, list...) })
	}
	other := func(address string) string { return strings.Replace(card, `"/rpc"`, `"`+address+`"`, 1) }
	backendtest.Faults(t, start, turn("x"), key, []backendtest.Fault{
		{Name: "a refused key", Answer: backendtest.Status(401, "", "no"), Message: "check SUPPORT_KEY"},
		{Name: "no card", Answer: backendtest.Status(404, "", ""), Message: "check the agent's model and url"},
		{Name: "a page as the card", Answer: backendtest.Status(200, "Content-Type: text/html", "<html>"), Message: "a web page answers"},
		{Name: "a card that is not JSON", Answer: backendtest.Status(200, "", "hello"), Retryable: true, Message: "cannot be read"},
		{Name: "a card of another version", Answer: backendtest.Status(200, "", strings.ReplaceAll(card, `"1.0"`, `"0.3"`)), Message: "no interface of version 1"},
		{Name: "an interface on another server", Answer: backendtest.Status(200, "", other("http://169.254.169.254/latest")), Message: "http://169.254.169.254, which is another server"},
		{Name: "an interface with a password", Answer: backendtest.Status(200, "", other("http://u:p@127.0.0.1/")), Message: "is not an address"},
		{Name: "a refused call", Answer: with(card, backendtest.Status(200, "Content-Type: application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"parts are missing"}}`)), Message: "parts are missing"},
		{Name: "a refused message", Answer: with(card, backendtest.Status(400, "", `{"error":{"code":400,"message":"parts are missing"}}`)), Message: "parts are missing"},
		{Name: "a stream without an end", Answer: stream(submitted), Retryable: true, Message: "broke off"},
		{Name: "an update of another task", Answer: stream(submitted, strings.ReplaceAll(artifact("x"), "t1", "t2")), Message: `updates of task "t2"`},
		{Name: "a rejected task", Answer: stream(submitted, ended("REJECTED", "not mine")), Message: "rejected the task: not mine"},
		{Name: "a cancelled task", Answer: stream(submitted, ended("CANCELED", "")), Retryable: true, Message: "has cancelled the task"},
	})
	backendtest.NoResponder(t, start, turn("x"), "does not answer")
}

// resumable is an agent with a task whose streams are cut after some of its updates. A stream that subscribes begins with the task.
func resumable(t *testing.T, cuts []int, list ...string) (url string, sends *atomic.Int64) {
	t.Helper()
	var connections atomic.Int64
	sends = new(atomic.Int64)
	server := serve(t, func(w http.ResponseWriter, _ *http.Request, c call) {
		if strings.HasPrefix(c.Method, "Send") {
			sends.Add(1)
		}
		n := int(connections.Add(1))
		from := 0
		if c.Method == "SubscribeToTask" {
			from = cuts[n-2]
			text := ""
			for _, u := range list[:from] {
				if _, rest, ok := strings.Cut(u, `"text":"`); ok && strings.Contains(u, "artifactId") {
					said, _, _ := strings.Cut(rest, `"`)
					text += said
				}
			}
			updates(w, fmt.Sprintf(`{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"},"artifacts":[{"artifactId":"a","parts":[{"text":%q}]}]}}`, text))
		}
		if n <= len(cuts) {
			updates(w, list[from:max(from, cuts[n-1])]...)
			panic(http.ErrAbortHandler)
		}
		updates(w, list[from:]...)
	})
	return server.URL, sends
}

func TestACutTaskIsSubscribedTo(t *testing.T) {
	t.Parallel()
	list := []string{submitted, working("m1", `"parts":[{"text":"hm"}]`), artifact("one "), artifact("two "), artifact("three"), ended("COMPLETED", "")}
	for first := 1; first < len(list); first++ {
		for second := first; second < len(list); second++ {
			url, sends := resumable(t, []int{first, second}, list...)
			sent := backendtest.Send(t.Context(), a2a.New(a2a.Options{URL: url}), backend.State{}, turn("x"))
			if sent.Err != nil || sent.Text != "one two three" || sends.Load() != 1 {
				t.Errorf("cut after %d and %d updates: got %q, %v and %d messages, want the text once and 1", first, second, sent.Text, sent.Err, sends.Load())
			}
		}
	}
}

func TestATaskThatEndedMeanwhileIsRead(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request, c call) {
		switch c.Method {
		case "SendStreamingMessage":
			updates(w, submitted, artifact("half"))
		case "SubscribeToTask":
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"the task has ended"}}`)
		case "GetTask":
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"half "},{"text":"and whole"}]}]}}`)
		}
	})
	sent := backendtest.Send(t.Context(), a2a.New(a2a.Options{URL: server.URL}), backend.State{}, turn("x"))
	if sent.Err != nil || sent.Text != "half and whole" || sent.Outcome.State.ID != `{"context":"c1"}` {
		t.Errorf("got %q, %v and the state %+v", sent.Text, sent.Err, sent.Outcome.State)
	}
}

func TestALaterAttemptFollowsTheTaskOfTheEarlierOne(t *testing.T) {
	t.Parallel()
	again := turn("x")
	again.Attempt = 2
	url, sends := resumable(t, nil, submitted, artifact("whole"), ended("COMPLETED", ""))
	state := backend.State{ID: `{"context":"c1","task":"t1"}`}
	server := serve(t, func(w http.ResponseWriter, _ *http.Request, c call) {
		if c.Method != "SubscribeToTask" || c.Params.ID != "t1" {
			t.Errorf("got the call %+v", c)
		}
		updates(w, `{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"},"artifacts":[{"artifactId":"a","parts":[{"text":"wh"}]}]}}`, artifact("ole"), ended("COMPLETED", ""))
	})
	if sent := backendtest.Send(t.Context(), a2a.New(a2a.Options{URL: server.URL}), state, again); sent.Err != nil || sent.Text != "whole" {
		t.Errorf("got %q and %v", sent.Text, sent.Err)
	}
	if sent := backendtest.Send(t.Context(), a2a.New(a2a.Options{URL: url}), backend.State{}, again); sent.Err != nil || sends.Load() != 1 {
		t.Errorf("without a task: got %v and %d messages, want 1", sent.Err, sends.Load())
	}
}

func TestATaskIsCancelledWhereItsRequestEnds(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]int64{backend.ErrEnds: 1, context.Canceled: 0} {
		var cancels atomic.Int64
		server := serve(t, func(w http.ResponseWriter, r *http.Request, c call) {
			if c.Method == "CancelTask" && c.Params.ID == "t1" {
				cancels.Add(1)
				return
			}
			updates(w, submitted, artifact("begun"))
			<-r.Context().Done()
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		session, err := a2a.New(a2a.Options{URL: server.URL}).Start(ctx, backend.Start{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = session.Send(ctx, turn("x"), func(c backend.Chunk) error {
			if _, text := c.(backend.TextDelta); text {
				cancel(cause)
			}
			return nil
		})
		if err == nil || cancels.Load() != want {
			t.Errorf("%v: got %v and %d calls of CancelTask, want %d", cause, err, cancels.Load(), want)
		}
	}
}

// TestMessages sends turns by both bindings, and records what the agent gets.
func TestMessages(t *testing.T) {
	t.Parallel()
	type sent struct{ path, body string }
	calls := make(chan sent, 1)
	rest := strings.Replace(strings.Replace(card, `"/rpc","protocolBinding":"JSONRPC"`, `"/rest","tenant":"acme","protocolBinding":"HTTP+JSON"`, 1), `"JSONRPC","protocolVersion":"0.3"`, `"GRPC","protocolVersion":"1.0"`, 1)
	start := func(card string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, card)
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			calls <- sent{r.URL.Path, string(body)}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"message\":{\"messageId\":\"m\",\"contextId\":\"c1\",\"parts\":[{\"text\":\"hello\"}]}}\n\n")
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	rpcURL, restURL := start(card), start(rest)
	first := user("deploy")
	first.Parts = append(first.Parts, backend.Media{Input: event.InputPart{Type: "image", Data: []byte("png"), MediaType: "image/png"}})
	ask := backend.Call{ID: "call_1", Name: "ask_user", Args: json.RawMessage(`{"question":"When?"}`), Signature: `{"api":"a2a","task":"t1","message":"m1"}`}
	approval := backend.Call{ID: "call_2", Name: "deploy", Args: json.RawMessage(`{"to":"prod"}`), Signature: `{"api":"a2a","task":"t1","message":"m1","action":"act_1","kind":"approval"}`}
	tests := []struct {
		name, url string
		known     int
		messages  []backend.Message
	}{
		{"a new context", rpcURL, 0, []backend.Message{first}},
		{"a new context in a conversation", rpcURL, 0, []backend.Message{user("hi"), said(backend.Text{Text: "hello"}), first}},
		{"a context that is known", restURL, 2, []backend.Message{user("hi"), said(backend.Text{Text: "hello"}), first}},
		{"an answer", restURL, 2, []backend.Message{first, said(ask), result("call_1", "ask_user", event.ToolSuccess, "now")}},
		{"a question that was not answered", rpcURL, 2, []backend.Message{first, said(ask), result("call_1", "ask_user", event.ToolDenied, "the user declined to answer")}},
		{"another message in place of an answer", rpcURL, 2, []backend.Message{first, said(ask), result("call_1", "ask_user", event.ToolDenied, "superseded by a new message"), user("stop")}},
		{"an approval", rpcURL, 2, []backend.Message{first, said(approval), result("call_2", "deploy", event.ToolSuccess, "the user allowed this call")}},
		{"a denial", rpcURL, 2, []backend.Message{first, said(approval), result("call_2", "deploy", event.ToolDenied, "the user denied this call: not today")}},
	}
	golden := &txtar.Archive{}
	for _, tt := range tests {
		run := turn("")
		run.Messages, run.Known, run.System = tt.messages, tt.known, "be brief"
		run.Options = json.RawMessage(`{"context":{"tier":"gold"}}`)
		state := backend.State{}
		if tt.known > 0 {
			state.ID = `{"context":"c1"}`
		}
		if got := backendtest.Send(t.Context(), a2a.New(a2a.Options{URL: tt.url}), state, run); got.Err != nil || got.Text != "hello" {
			t.Fatalf("%s: got %q and %v", tt.name, got.Text, got.Err)
		}
		call := <-calls
		body := jsontext.Value(call.body)
		if err := body.Indent(jsontext.WithIndent(" ")); err != nil {
			t.Fatal(err)
		}
		golden.Files = append(golden.Files, txtar.File{Name: tt.name + ": POST " + call.path, Data: append(body, '\n')})
	}
	backendtest.Golden(t, "testdata/messages.txtar", *update, golden)
}

func TestTheCardIsFetchedOnce(t *testing.T) {
	t.Parallel()
	var cards atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			cards.Add(1)
			if r.URL.Path != "/agents/a/.well-known/agent-card.json" {
				t.Errorf("got the path %s", r.URL.Path)
			}
			_, _ = io.WriteString(w, strings.Replace(card, `{"streaming":true}`, `{}`, 1))
			return
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED","message":{"messageId":"m","parts":[{"text":"done"}]}}}}}`)
	}))
	t.Cleanup(server.Close)
	b := a2a.New(a2a.Options{URL: server.URL + "/agents/a", Quiet: time.Minute})
	for range 2 {
		if sent := backendtest.Send(t.Context(), b, backend.State{}, turn("x")); sent.Err != nil || sent.Text != "done" {
			t.Errorf("got %q and %v", sent.Text, sent.Err)
		}
	}
	if cards.Load() != 1 {
		t.Errorf("got %d requests for the card, want 1", cards.Load())
	}
}
