package aisdk_test

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/aisdk"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

func turn(text string) backend.Turn {
	return backend.Turn{
		RequestID: "req_1", ThreadID: "thr_1", AgentID: "support", Attempt: 1, Messages: []backend.Message{user(text)},
		Tools: []tool.Spec{{Name: "clock", Description: "the time", Schema: json.RawMessage(`{"type":"object"}`)}},
	}
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
			Backend: aisdk.New(aisdk.Options{URL: agent(t).URL}),
			Text:    turn("text"), Thinking: turn("thinking"), Call: turn("call"), Calls: turn("calls"), Tools: turn("tools"),
			Retryable: turn("later"), Final: turn("never"), Endless: turn("endless"),
			Resumes: true, Result: "noon", After: "it is noon",
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
	turn.Tools = []tool.Spec{{Name: "clock"}}
	return session.Send(ctx, turn, emit)
}

func open(client *http.Client) backend.Model {
	return model{aisdk.New(aisdk.Options{URL: "http://agent.example/chat", Client: client, Retries: -1, Settle: time.Minute})}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	backendtest.Replay(t, "testdata/streams/*.txtar", *update, open)
}

func FuzzStream(f *testing.F) {
	backendtest.AddStreams(f, "testdata/streams/*.txtar")
	f.Fuzz(func(t *testing.T, stream string) { backendtest.Any(t, stream, open) })
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const key = "hunter2-secret"
	start := func(url string, retries int) backend.Model {
		return model{aisdk.New(aisdk.Options{URL: url, APIKey: key, KeyEnv: "SUPPORT_KEY", Retries: retries})}
	}
	stream := func(list ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { chunks(w, list...) }
	}
	backendtest.Faults(t, start, turn("x"), key, []backendtest.Fault{
		{Name: "a refused key", Answer: backendtest.Status(401, "", "no"), Message: "check SUPPORT_KEY"},
		{Name: "a refused turn", Answer: backendtest.Status(400, "", "messages are required"), Message: "messages are required"},
		{Name: "a page", Answer: backendtest.Status(200, "Content-Type: text/html", "<html>"), Message: "a web page answers"},
		{Name: "a text stream", Answer: backendtest.Status(200, "Content-Type: text/plain", "Hello"), Message: `the type of its answer is "text/plain"`},
		{Name: "not JSON", Answer: stream("hello"), Retryable: true, Message: "cannot be read"},
		{Name: "a stream without an end", Answer: stream(begin), Retryable: true, Message: "broke off"},
		{Name: "a delta of no text", Answer: stream(`{"type":"text-delta","id":"0","delta":"x"}`), Message: "has no start"},
		{Name: "a call without a name", Answer: stream(`{"type":"tool-input-available","toolCallId":"t","input":{}}`), Message: "has no start"},
		{Name: "an approval of no call", Answer: stream(`{"type":"tool-approval-request","toolCallId":"t","approvalId":"a"}`), Message: "has no call"},
		{Name: "an aborted answer", Answer: stream(`{"type":"abort"}`), Retryable: true, Message: "has aborted its answer"},
		{Name: "an answer that is discarded", Answer: stream(begin, `{"type":"reset-step"}`), Retryable: true, Message: "broke off"},
		{Name: "an error as the reason", Answer: stream(`{"type":"finish","finishReason":"error"}`), Message: "ended with an error"},
	})
	backendtest.NoResponder(t, start, turn("x"), "does not answer")
}

// resumable is an agent with a route that resumes its stream. Each connection but the last is cut after some of the chunks.
func resumable(t *testing.T, cuts []int, list ...string) (url string, posts *atomic.Int64) {
	t.Helper()
	var connections atomic.Int64
	posts = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
		} else if !strings.HasSuffix(r.URL.Path, "/stream") || !strings.HasPrefix(r.URL.Path, "/chat/thr_") {
			t.Errorf("got the path %s", r.URL.Path)
		}
		n := int(connections.Add(1))
		if n <= len(cuts) {
			chunks(w, list[:cuts[n-1]]...)
			panic(http.ErrAbortHandler)
		}
		chunks(w, list...)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/chat", posts
}

// answers are the chunks of an answer with a tool, texts with the same id, an event and a plan.
func answers() []string {
	list := []string{begin, `{"type":"start-step"}`, `{"type":"data-cart","data":{"n":1}}`, `{"type":"data-cart","data":{"n":2}}`}
	list = append(append(list, says("I read")...), calls("t", "read")...)
	list = append(list, `{"type":"tool-output-available","toolCallId":"t","output":{"text":"A"},"preliminary":true}`,
		`{"type":"tool-output-available","toolCallId":"t","output":{"text":"A"}}`, `{"type":"start-step"}`)
	list = append(list, `{"type":"text-start","id":"0"}`, `{"type":"text-delta","id":"0","delta":"do"}`, `{"type":"text-delta","id":"0","delta":"ne"}`, `{"type":"text-end","id":"0"}`)
	return append(list, end, over)
}

func TestACutAnswerContinuesByTheRouteThatResumesIt(t *testing.T) {
	t.Parallel()
	list := answers()
	whole := backendtest.Sent{}
	for first := range list {
		url, posts := resumable(t, []int{first, min(first+2, len(list)-1)}, list...)
		sent := backendtest.Send(t.Context(), aisdk.New(aisdk.Options{URL: url}), backend.State{}, turn("x"))
		if sent.Err != nil || sent.Text != "I readdone" || posts.Load() != 1 {
			t.Fatalf("cut after %d chunks: got %q, %v and %d requests, want the text once and 1", first, sent.Text, sent.Err, posts.Load())
		}
		if first == 0 {
			whole = sent
		}
		if got, want := kinds(sent.Chunks), kinds(whole.Chunks); got != want {
			t.Errorf("cut after %d chunks: got\n%s\nwant\n%s", first, got, want)
		}
	}
}

// kinds are the chunks that are not prose, in one line.
func kinds(list []backend.Chunk) string {
	var b strings.Builder
	for _, c := range list {
		switch c := c.(type) {
		case backend.ToolStarted:
			b.WriteString("start " + c.ID + " ")
		case backend.ToolProgress:
			b.WriteString("progress " + c.Delta + " ")
		case backend.ToolEnded:
			b.WriteString("end " + c.ID + " ")
		case backend.Custom:
			b.WriteString(c.Type + string(c.Data) + " ")
		}
	}
	return b.String()
}

func TestALaterAttemptReadsTheStreamOfTheEarlierOne(t *testing.T) {
	t.Parallel()
	again := turn("x")
	again.Attempt = 2
	ran := said(backend.Text{Text: "I read"}, backend.Call{ID: "call_1", Name: "read", Args: json.RawMessage("{}"), Signature: `{"api":"ai-sdk","message":"m1","id":"t"}`})
	again.Messages = append(again.Messages, ran, result("call_1", "read", event.ToolSuccess, "A"))
	url, posts := resumable(t, nil, answers()...)
	sent := backendtest.Send(t.Context(), aisdk.New(aisdk.Options{URL: url}), backend.State{}, again)
	if sent.Err != nil || sent.Text != "done" || posts.Load() != 0 || kinds(sent.Chunks) != "" {
		t.Errorf("got %q, %v, %q and %d requests, want what follows the tool, and none", sent.Text, sent.Err, kinds(sent.Chunks), posts.Load())
	}

	again.Messages = append(again.Messages, said(backend.Text{Text: "done"}), user("y")) // the stream is that of the message before
	url, posts = resumable(t, nil, answers()...)
	if sent = backendtest.Send(t.Context(), aisdk.New(aisdk.Options{URL: url}), backend.State{}, again); sent.Err != nil || posts.Load() != 1 {
		t.Errorf("got %v and %d requests, want 1", sent.Err, posts.Load())
	}
}

// TestACallThatAsksLateHasAnEnd has an agent that asks for the approval of a call which counts as running.
func TestACallThatAsksLateHasAnEnd(t *testing.T) {
	t.Parallel()
	running := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunks(w, calls("t", "deploy")...)
		<-running
		chunks(w, `{"type":"tool-approval-request","toolCallId":"t","approvalId":"a"}`, end, over)
	}))
	t.Cleanup(server.Close)
	session, err := aisdk.New(aisdk.Options{URL: server.URL, Settle: time.Millisecond}).Start(t.Context(), backend.Start{ThreadID: "thr_1"})
	if err != nil {
		t.Fatal(err)
	}
	var ended backend.ToolEnded
	outcome, err := session.Send(t.Context(), turn("x"), func(c backend.Chunk) error {
		switch c := c.(type) {
		case backend.ToolStarted:
			close(running)
		case backend.ToolEnded:
			ended = c
		}
		return nil
	})
	if err != nil || ended.ID != "t" || ended.Status != event.ToolDenied || outcome.Finish != event.FinishToolCalls {
		t.Errorf("got the end %+v of the call, the outcome %+v and %v", ended, outcome, err)
	}
}

func TestTheConversationGoesBackAsTheAgentKnowsIt(t *testing.T) {
	t.Parallel()
	bodies := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies <- body
		chunks(w, end, over)
	}))
	t.Cleanup(server.Close)
	args := json.RawMessage(`{"to":"prod"}`)
	approval := backend.Call{ID: "call_1", Name: "deploy", Args: args, Signature: `{"api":"ai-sdk","message":"m1","id":"t1","approval":"a1","signature":"S"}`}
	text := backend.Text{Text: "I deploy", Signature: `{"api":"ai-sdk","message":"m1","metadata":{"openai":{"itemId":"i1"}}}`}
	first := user("deploy")
	first.Parts = append(first.Parts, backend.Media{Input: event.InputPart{Type: "image", Data: []byte("png"), MediaType: "image/png"}})
	allowed, denied := result("call_1", "deploy", event.ToolSuccess, "the user allowed this call"), result("call_1", "deploy", event.ToolDenied, "the user denied this call: not today")
	ran := said(backend.Call{ID: "call_2", Name: "deploy", Args: args, Signature: `{"api":"ai-sdk","message":"m1","id":"t1"}`})
	tests := []struct {
		name     string
		newOnly  bool
		known    int
		messages []backend.Message
	}{
		{"allowed", false, 0, []backend.Message{first, said(backend.Thinking{Text: "hm", Signature: `{"api":"ai-sdk","message":"m1","metadata":{"anthropic":{"signature":"E"}}}`}, text, approval), allowed}},
		{"denied", false, 0, []backend.Message{first, said(text, approval), denied}},
		{"superseded", false, 0, []backend.Message{first, said(approval), result("call_1", "deploy", event.ToolDenied, "superseded by a new message"), user("stop")}},
		{"afterwards", false, 0, []backend.Message{first, said(text, approval), allowed, ran, result("call_2", "deploy", event.ToolSuccess, `{"ok":true}`), said(backend.Text{Text: "deployed"}), user("why?")}},
		{"allowed without an outcome", false, 0, []backend.Message{first, said(approval), allowed, user("and?")}},
		{"denied and answered", false, 0, []backend.Message{first, said(approval), denied, said(backend.Text{Text: "ok"}), user("why?")}},
		{"a tool of the turn, and one of another agent", false, 0, []backend.Message{
			first, said(backend.Call{ID: "call_3", Name: "clock", Signature: `{"api":"ai-sdk","id":"c1"}`}, backend.Call{ID: "call_4", Name: "Bash", Args: args}),
			{Role: backend.Tool, Parts: []backend.Part{
				backend.Result{ID: "call_3", Name: "clock", Status: event.ToolSuccess, Content: "noon"}, backend.Result{ID: "call_4", Name: "Bash", Status: event.ToolFailed, Content: "no shell"},
			}},
		}},
		{"new messages alone", true, 2, []backend.Message{first, said(text), user("and now?")}},
	}
	golden := &txtar.Archive{}
	for _, tt := range tests {
		state := backend.State{}
		if tt.newOnly {
			state.ID = "thr_theirs"
		}
		run := turn("")
		run.Messages, run.Known, run.System, run.Model = tt.messages, tt.known, "be brief", "m1"
		run.Options = json.RawMessage(`{"context":{"tier":"gold"}}`)
		if sent := backendtest.Send(t.Context(), aisdk.New(aisdk.Options{URL: server.URL, New: tt.newOnly}), state, run); sent.Err != nil {
			t.Fatal(sent.Err)
		}
		body := jsontext.Value(<-bodies)
		if err := body.Indent(jsontext.WithIndent(" ")); err != nil {
			t.Fatal(err)
		}
		golden.Files = append(golden.Files, txtar.File{Name: tt.name, Data: append(body, '\n')})
	}
	backendtest.Golden(t, "testdata/requests.txtar", *update, golden)
}
