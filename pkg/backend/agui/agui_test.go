package agui_test

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/agui"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

func turn(text string) backend.Turn {
	return backend.Turn{
		RequestID: "req_1", ThreadID: "thr_1", AgentID: "support", Attempt: 1,
		Messages: []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: text}}}},
		Tools:    []tool.Spec{{Name: "clock", Description: "the time", Schema: json.RawMessage(`{"type":"object"}`)}},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(t *testing.T) backendtest.Subject {
		return backendtest.Subject{
			Backend: agui.New(agui.Options{URL: agent(t).URL}),
			Text:    turn("text"), Thinking: turn("thinking"), Call: turn("call"), Calls: turn("calls"), Tools: turn("tools"),
			Retryable: turn("later"), Final: turn("never"), Endless: turn("endless"),
			Resumes: true, Result: "noon", After: "it\u00a0is\u00a0noon",
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
	return model{agui.New(agui.Options{URL: "http://agent.example/agui", Client: client, Retries: -1, Settle: time.Minute})}
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
		return model{agui.New(agui.Options{URL: url, APIKey: key, KeyEnv: "SUPPORT_KEY", Retries: retries})}
	}
	stream := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: "+body+"\n\n")
		}
	}
	backendtest.Faults(t, start, turn("x"), key, []backendtest.Fault{
		{Name: "a refused key", Answer: backendtest.Status(401, "", `{"type":"RUN_ERROR","message":"no"}`), Message: "check SUPPORT_KEY"},
		{Name: "a refused run", Answer: backendtest.Status(400, "", `{"type":"RUN_ERROR","message":"threadId is wrong"}`), Message: "threadId is wrong"},
		{Name: "a page", Answer: backendtest.Status(200, "Content-Type: text/html", "<html>"), Message: "a web page answers"},
		{Name: "not JSON", Answer: stream("hello"), Retryable: true, Message: "cannot be read"},
		{Name: "a stream without an end", Answer: stream(`{"type":"RUN_STARTED"}`), Retryable: true, Message: "broke off"},
		{Name: "arguments of no call", Answer: stream(`{"type":"TOOL_CALL_ARGS","toolCallId":"t","delta":"{}"}`), Message: "has no start"},
		{Name: "an interrupt without an id", Answer: stream(`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{}]}}`), Message: "an interrupt has no id"},
		{Name: "a cancelled run", Answer: stream(`{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}`), Retryable: true, Message: "has cancelled its run"},
	})
	backendtest.NoResponder(t, start, turn("x"), "does not answer")
}

// TestACallThatIsInterruptedLateHasAnEnd has an agent that interrupts a call which counts as running.
func TestACallThatIsInterruptedLateHasAnEnd(t *testing.T) {
	t.Parallel()
	running := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"type":"TOOL_CALL_START","toolCallId":"t","toolCallName":"deploy"}`+"\n\n"+`data: {"type":"TOOL_CALL_END","toolCallId":"t"}`+"\n\n")
		w.(http.Flusher).Flush()
		<-running
		_, _ = io.WriteString(w, `data: {"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i","toolCallId":"t"}]}}`+"\n\n")
	}))
	t.Cleanup(server.Close)
	session, err := agui.New(agui.Options{URL: server.URL, Settle: time.Millisecond}).Start(t.Context(), backend.Start{ThreadID: "thr_1"})
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
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"type":"RUN_FINISHED"}`+"\n\n")
	}))
	t.Cleanup(server.Close)
	result := func(id, name string, status event.ToolStatus, content string) backend.Message {
		return backend.Message{Role: backend.Tool, Parts: []backend.Part{backend.Result{ID: id, Name: name, Status: status, Content: content}}}
	}
	said := func(parts ...backend.Part) backend.Message {
		return backend.Message{Role: backend.Assistant, Parts: parts}
	}
	user := func(text string) backend.Message {
		return backend.Message{Role: backend.User, Parts: []backend.Part{backend.Text{Text: text}}}
	}
	args := json.RawMessage(`{"to":"prod"}`)
	approval := backend.Call{ID: "call_1", Name: "deploy", Args: args, Signature: `{"api":"ag-ui","id":"t1","message":"m1","interrupt":"i1","member":"approved"}`}
	question := backend.Call{ID: "call_2", Name: "ask_user", Args: json.RawMessage(`{"question":"when?"}`), Signature: `{"api":"ag-ui","interrupt":"i2","member":"answer"}`}
	text := backend.Text{Text: "I deploy", Signature: `{"api":"ag-ui","id":"m1"}`}
	media := backend.Media{Input: event.InputPart{Type: "image", Data: []byte("png"), MediaType: "image/png"}}
	first := user("deploy")
	first.Parts = append(first.Parts, media)
	tests := []struct {
		name     string
		newOnly  bool
		known    int
		messages []backend.Message
	}{
		{"answers", false, 0, []backend.Message{first, said(backend.Thinking{Text: "hm", Signature: `{"api":"ag-ui","id":"h1","encrypted":"E"}`}, text, approval, question),
			result("call_1", "deploy", event.ToolSuccess, "the user allowed this call"), result("call_2", "ask_user", event.ToolSuccess, "now")}},
		{"denials", false, 0, []backend.Message{first, said(text, approval, question),
			result("call_1", "deploy", event.ToolDenied, "the user denied this call: not today"), result("call_2", "ask_user", event.ToolDenied, "the user declined to answer")}},
		{"superseded", false, 0, []backend.Message{first, said(approval), result("call_1", "deploy", event.ToolDenied, "superseded by a new message"), user("stop")}},
		{"afterwards", false, 0, []backend.Message{first, said(text, approval), result("call_1", "deploy", event.ToolSuccess, "the user allowed this call"),
			said(backend.Call{ID: "call_3", Name: "deploy", Args: args, Signature: `{"api":"ag-ui","id":"t1","message":"m1"}`}),
			result("call_3", "deploy", event.ToolFailed, "no such server"), said(backend.Text{Text: "it failed"}), user("why?")}},
		{"denied and answered", false, 0, []backend.Message{first, said(approval), result("call_1", "deploy", event.ToolDenied, "the user denied this call"),
			said(backend.Text{Text: "ok"}), user("why?")}},
		{"new messages alone", true, 2, []backend.Message{first, said(text), user("and now?")}},
	}
	golden := &txtar.Archive{}
	for _, tt := range tests {
		state := backend.State{}
		if tt.newOnly {
			state.ID = "thr_theirs"
		}
		session, err := agui.New(agui.Options{URL: server.URL, New: tt.newOnly}).Start(t.Context(), backend.Start{ThreadID: "thr_1", State: state})
		if err != nil {
			t.Fatal(err)
		}
		run := turn("")
		run.Messages, run.Known, run.System, run.Model = tt.messages, tt.known, "be brief", "m1"
		run.Options = json.RawMessage(`{"context":{"tier":"gold"}}`)
		if _, err := session.Send(t.Context(), run, func(backend.Chunk) error { return nil }); err != nil {
			t.Fatal(err)
		}
		body := jsontext.Value(<-bodies)
		if err := body.Indent(jsontext.WithIndent(" ")); err != nil {
			t.Fatal(err)
		}
		golden.Files = append(golden.Files, txtar.File{Name: tt.name, Data: append(body, '\n')})
	}
	backendtest.Golden(t, "testdata/requests.txtar", *update, golden)
}
