package langgraph_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/langgraph"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

func user(text string) backend.Message {
	return backend.Message{Role: backend.User, Parts: []backend.Part{backend.Text{Text: text}}}
}

func turn(text string) backend.Turn {
	return backend.Turn{RequestID: "req_1", ThreadID: "thr_1", AgentID: "support", Attempt: 1, Messages: []backend.Message{user(text)}}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(t *testing.T) backendtest.Subject {
		return backendtest.Subject{
			Backend: langgraph.New(langgraph.Options{URL: newServer(t).URL, Assistant: "agent"}),
			Text:    turn("text"), Thinking: turn("thinking"), Tools: turn("tools"), Retryable: turn("later"), Final: turn("never"),
			Endless: turn("endless"), Resumes: true,
		}
	})
}

// send runs a turn in a new session.
func send(t *testing.T, s *server, turn backend.Turn) (backendtest.Answer, error) {
	t.Helper()
	return backendtest.Ask(t.Context(), model{langgraph.New(langgraph.Options{URL: s.URL, Assistant: "agent"})}, turn)
}

// model runs each turn in a new session.
type model struct{ backend backend.Backend }

func (m model) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	session, err := m.backend.Start(ctx, backend.Start{ThreadID: "thr_1"})
	if err != nil {
		return backend.Outcome{}, err
	}
	return session.Send(ctx, turn, emit)
}

func TestACutStream(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"cut":     "join after 1", // the rest of the stream
		"expired": "",             // the state, since the run has ended
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			a, err := send(t, s, turn(name))
			if err != nil || a.Text != "half and whole" || s.noted() != want || len(s.runs) != 1 {
				t.Errorf("got %q, %v after %q with %d runs, want the whole text after %q with one", a.Text, err, s.noted(), len(s.runs), want)
			}
		})
	}
}

// TestTheNextRunnerFindsTheRun sends a turn again, of which the log has the first message, as after a crash.
func TestTheNextRunnerFindsTheRun(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	if _, err := send(t, s, turn("tools")); err != nil {
		t.Fatal(err)
	}
	again := turn("tools")
	again.Attempt = 2
	again.Messages = append(again.Messages,
		backend.Message{Role: backend.Assistant, Parts: []backend.Part{backend.Call{ID: "call_1", Name: "read", Signature: `{"api":"langgraph","id":"t1"}`}}},
		backend.Message{Role: backend.Tool, Parts: []backend.Part{backend.Result{ID: "call_1", Name: "read", Status: event.ToolSuccess, Content: "A"}}})
	a, err := send(t, s, again)
	if err != nil || a.Text != "done" || len(a.Tools) != 0 || len(s.runs) != 1 || s.noted() != "join after -1" {
		t.Errorf("got %q with tools %v, %v, after %d runs and %q, want the answer alone by joining the run", a.Text, a.Tools, err, len(s.runs), s.noted())
	}
}

// TestOnlyTheEndOfARequestCancelsItsRun cancels the context of a turn as an abort does, and as a runner that stops.
func TestOnlyTheEndOfARequestCancelsItsRun(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]string{backend.ErrEnds: "cancel run-1", context.Canceled: ""} {
		s := newServer(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		session, err := langgraph.New(langgraph.Options{URL: s.URL, Assistant: "agent"}).Start(ctx, backend.Start{ThreadID: "thr_1"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = session.Send(ctx, turn("endless"), func(c backend.Chunk) error {
			if _, ok := c.(backend.TextDelta); ok {
				cancel(cause)
			}
			return nil
		})
		cancel(nil)
		if !errors.Is(err, context.Canceled) || s.noted() != want {
			t.Errorf("%v: got %v and %q, want a cancelled turn and %q", cause, err, s.noted(), want)
		}
	}
}

// TestACallThatIsInterruptedLate has an agent that interrupts a call which counts as running, and runs it in the next turn.
func TestACallThatIsInterruptedLate(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := langgraph.New(langgraph.Options{URL: s.URL, Assistant: "agent", Settle: time.Millisecond})
	a, err := backendtest.Ask(t.Context(), model{b}, turn("late"))
	if err != nil || len(a.Tools) != 1 || !a.Tools[0].Ended || len(a.Calls) != 1 || a.Calls[0].Gate != backend.GateAgentApproval {
		t.Fatalf("got tools %v, calls %v and %v, want the end of the call and an approval", a.Tools, a.Calls, err)
	}
	next := turn("late")
	next.Messages = append(next.Messages,
		backend.Message{Role: backend.Assistant, Parts: []backend.Part{
			backend.Call{ID: "call_1", Name: "deploy", Signature: `{"api":"langgraph","id":"t1"}`},
			backend.Call{ID: "call_2", Name: "deploy", Signature: a.Calls[0].Signature},
		}},
		backend.Message{Role: backend.Tool, Parts: []backend.Part{
			backend.Result{ID: "call_1", Status: event.ToolDenied}, backend.Result{ID: "call_2", Status: event.ToolSuccess},
		}})
	if a, err = backendtest.Ask(t.Context(), model{b}, next); err != nil || len(a.Tools) != 1 || a.Tools[0].ID != "t1" || !a.Tools[0].Ended {
		t.Errorf("after the approval: got tools %v and %v, want the call with its end", a.Tools, err)
	}
}

func TestAssistants(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for name, want := range map[string]string{"agent": "", "a-1": "", "missing": `has no assistant "missing"; it has a-1, agent`} {
		b := langgraph.New(langgraph.Options{URL: s.URL, Assistant: name})
		err := backend.Probe(t.Context(), b)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if _, err := backendtest.Ask(t.Context(), model{b}, turn("text")); want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a run of %s: got %v, want %q", name, err, want)
		}
	}
}

// stream is a server with one stream for all runs.
func stream(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/stream"):
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Location", "/threads/t/runs/run-1")
			_, _ = w.Write([]byte(body)) // the test fails on what is missing
		case strings.Contains(r.URL.Path, "/runs/"):
			_, _ = w.Write([]byte(`{"run_id":"run-1","status":"success"}`))
		default:
			_, _ = w.Write([]byte(`{}`))
		}
	}
}

type handled struct{ handler http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

func TestStreams(t *testing.T) {
	t.Parallel()
	golden, err := txtar.ParseFile("testdata/streams.txtar")
	if err != nil {
		t.Fatal(err)
	}
	got := &txtar.Archive{Comment: golden.Comment}
	for _, file := range golden.Files {
		if strings.HasSuffix(file.Name, ".chunks") {
			continue
		}
		b := langgraph.New(langgraph.Options{
			URL: "http://agent.example", Assistant: "agent", Settle: time.Minute, Client: &http.Client{Transport: handled{stream(string(file.Data))}},
		})
		a, err := backendtest.Ask(t.Context(), model{b}, turn("x"))
		got.Files = append(got.Files, file, txtar.File{Name: file.Name + ".chunks", Data: []byte(backendtest.Transcript(a, err))})
	}
	backendtest.Golden(t, "testdata/streams.txtar", *update, got)
}

func FuzzStream(f *testing.F) {
	golden, err := txtar.ParseFile("testdata/streams.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range golden.Files {
		f.Add(string(file.Data))
	}
	f.Fuzz(func(t *testing.T, body string) {
		b := langgraph.New(langgraph.Options{
			URL: "http://agent.example", Assistant: "agent", Settle: time.Minute, Joins: -1, Client: &http.Client{Transport: handled{stream(body)}},
		})
		if _, err := backendtest.Ask(t.Context(), model{b}, turn("x")); err != nil && apierr.CodeOf(err) != apierr.AgentError {
			t.Errorf("got %v, want %s", err, apierr.AgentError)
		}
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const key = "hunter2-secret"
	start := func(url string, retries int) backend.Model {
		return model{langgraph.New(langgraph.Options{URL: url, Assistant: "agent", APIKey: key, KeyEnv: "LANGGRAPH_KEY", Retries: retries})}
	}
	backendtest.Faults(t, start, turn("x"), key, []backendtest.Fault{
		{Name: "a refused key", Answer: backendtest.Status(401, "", `{"detail":"no"}`), Message: "check LANGGRAPH_KEY"},
		{Name: "a refused run", Answer: backendtest.Status(422, "", `{"detail":"input is wrong"}`), Message: "input is wrong"},
		{Name: "a page", Answer: backendtest.Status(200, "Content-Type: text/html", "<html>"), Message: "a web page answers"},
		{Name: "an error of the graph", Answer: stream("event: error\ndata: {\"error\":\"ValueError\",\"message\":\"no city\"}\n\n"), Message: "no city"},
		{Name: "messages of another form", Answer: stream("event: messages\ndata: {}\n\n"), Message: "violates its protocol"},
		{Name: "updates of another form", Answer: stream("event: updates\ndata: 1\n\n"), Message: "violates its protocol"},
	})
	backendtest.NoResponder(t, start, turn("x"), "does not answer")
}

// TestTheConversation checks what the server gets.
func TestTheConversation(t *testing.T) {
	t.Parallel()
	said := func(parts ...backend.Part) backend.Message {
		return backend.Message{Role: backend.Assistant, Parts: parts}
	}
	result := func(id string, status event.ToolStatus, content string) backend.Message {
		return backend.Message{Role: backend.Tool, Parts: []backend.Part{backend.Result{ID: id, Status: status, Content: content}}}
	}
	call := func(id, note string) backend.Call {
		return backend.Call{ID: id, Name: "deploy", Args: json.RawMessage(`{"to":"prod"}`), Signature: note}
	}
	first := user("deploy")
	first.Parts = append(first.Parts, backend.Media{Input: event.InputPart{Type: "image", Data: []byte("png"), MediaType: "image/png"}},
		backend.Media{Input: event.InputPart{Type: "file", URL: "https://a.example/b.pdf", MediaType: "application/pdf"}})
	one := call("c1", `{"api":"langgraph","id":"t1","interrupt":"i1","form":"review","of":2}`)
	two := call("c2", `{"api":"langgraph","interrupt":"i1","form":"review","index":1,"of":2}`)
	inbox := call("c3", `{"api":"langgraph","interrupt":"i2","form":"inbox","of":1}`)
	question := call("c4", `{"api":"langgraph","interrupt":"i3"}`)
	golden := &txtar.Archive{}
	for _, tt := range []struct {
		name     string
		known    int
		messages []backend.Message
	}{
		{"a new thread", 0, []backend.Message{first, said(backend.Text{Text: "which server?"}, call("c0", "")), result("c0", "success", "A"), user("prod")}},
		{"new messages alone", 2, []backend.Message{user("one"), said(backend.Text{Text: "two"}), user("three")}},
		{"a review", 1, []backend.Message{first, said(one, two), result("c1", event.ToolSuccess, ""), result("c2", event.ToolDenied, "the user denied this call: no")}},
		{"the inbox, allowed", 1, []backend.Message{first, said(inbox), result("c3", event.ToolSuccess, "")}},
		{"the inbox, denied", 1, []backend.Message{first, said(inbox), result("c3", event.ToolDenied, "no")}},
		{"a text", 1, []backend.Message{first, said(question), result("c4", event.ToolSuccess, "now")}},
		{"several", 1, []backend.Message{first, said(inbox, question), result("c3", event.ToolSuccess, ""), result("c4", event.ToolSuccess, `{"a":1}`)}},
		{"a message in place of an answer", 1, []backend.Message{first, said(question), result("c4", event.ToolDenied, "superseded by a new message"), user("stop")}},
	} {
		var body []byte
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/runs/stream") {
				var err error
				if body, err = io.ReadAll(r.Body); err != nil {
					t.Error(err)
				}
			}
			stream("")(w, r)
		})
		state := backend.State{}
		if tt.known > 0 {
			state.ID = "0190b7b4-2f05-7c3b-9a77-0a1b2c3d4e5f"
		}
		session, err := langgraph.New(langgraph.Options{URL: "http://agent.example", Assistant: "agent", Client: &http.Client{Transport: handled{handler}}}).
			Start(t.Context(), backend.Start{ThreadID: "thr_1", State: state})
		if err != nil {
			t.Fatal(err)
		}
		run := turn("")
		run.Messages, run.Known, run.System, run.Options = tt.messages, tt.known, "be brief", json.RawMessage(`{"context":{"tier":"gold"}}`)
		if _, err := session.Send(t.Context(), run, func(backend.Chunk) error { return nil }); err != nil {
			t.Fatal(err)
		}
		text := jsontext.Value(body)
		if err := text.Indent(jsontext.WithIndent(" ")); err != nil {
			t.Fatal(err)
		}
		golden.Files = append(golden.Files, txtar.File{Name: tt.name, Data: append(text, '\n')})
	}
	backendtest.Golden(t, "testdata/requests.txtar", *update, golden)
}
