package command

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/acp"
)

// testEditor allows every call, and keeps the updates.
type testEditor struct {
	mu      sync.Mutex
	updates []acp.Update
	asked   []acp.PermissionRequest
}

func (e *testEditor) Request(_ string, params json.RawMessage) func(context.Context) (any, error) {
	p, err := acp.Decode[acp.PermissionRequest](params)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, p)
	return func(context.Context) (any, error) {
		return acp.PermissionResponse{Outcome: acp.PermissionOutcome{Outcome: acp.OutcomeSelected, OptionID: p.Options[0].OptionID}}, err
	}
}

func (e *testEditor) Notification(_ string, params json.RawMessage) {
	p, err := acp.Decode[acp.UpdateNotification](params)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.updates = append(e.updates, p.Update)
	}
}

// text joins the text of the chunks of a kind.
func (e *testEditor) text(kind string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var text strings.Builder
	for _, u := range e.updates {
		if c, err := acp.Decode[acp.Content](u.Content); err == nil && u.SessionUpdate == kind {
			text.WriteString(c.Text)
		}
	}
	return text.String()
}

// serveACP runs `agentbus acp` until the test ends.
func serveACP(t *testing.T, e *testEditor, args ...string) (*acp.Conn, *bytes.Buffer) {
	t.Helper()
	toIn, in := io.Pipe()
	out, fromOut := io.Pipe()
	var stderr bytes.Buffer
	var running sync.WaitGroup
	running.Go(func() {
		code := run(t.Context(), append([]string{"acp"}, args...), &console{in: toIn, out: fromOut, err: &stderr, getenv: noEnvironment})
		if code != 0 {
			t.Errorf("got exit code %d when the editor had left, want 0: %s", code, &stderr)
		}
		_ = fromOut.Close()
	})
	conn := acp.NewConn(out, in, e)
	running.Go(func() { _ = conn.Serve(t.Context()) })
	t.Cleanup(func() {
		_ = in.Close()
		running.Wait()
	})
	var hello acp.InitializeResponse
	if err := conn.Call(t.Context(), acp.MethodInitialize, acp.InitializeRequest{ProtocolVersion: 1}, &hello); err != nil || hello.ProtocolVersion != 1 {
		t.Fatalf("initialize: got %+v, %v", hello, err)
	}
	return conn, &stderr
}

func TestACPServesAnAgentToAnEditor(t *testing.T) {
	t.Parallel()
	e := &testEditor{}
	conn, _ := serveACP(t, e, "--url", shared().URL)
	var session acp.SessionResponse
	if err := conn.Call(t.Context(), acp.MethodNew, acp.NewRequest{CWD: t.TempDir()}, &session); err != nil {
		t.Fatal(err)
	}
	var end acp.PromptResponse
	prompt := acp.PromptRequest{SessionID: session.SessionID, Prompt: []acp.Content{acp.TextContent("/think hm\n/approve echo {\"text\":\"x\"}\n/say hello there")}}
	if err := conn.Call(t.Context(), acp.MethodPrompt, prompt, &end); err != nil || end.StopReason != acp.StopEndTurn {
		t.Fatalf("prompt: got %+v, %v", end, err)
	}
	if got := e.text(acp.UpdateAgentMessage); got != "hello there" {
		t.Errorf("got the text %q", got)
	}
	if got := e.text(acp.UpdateAgentThought); got != "hm" {
		t.Errorf("got the thoughts %q", got)
	}
	if len(e.asked) != 1 || string(e.asked[0].ToolCall.RawInput) != `{"text":"x"}` {
		t.Errorf("got the approvals %+v, want one", e.asked)
	}

	later := &testEditor{}
	conn, _ = serveACP(t, later, "--url", shared().URL)
	if err := conn.Call(t.Context(), acp.MethodLoad, acp.SessionRequest{SessionID: session.SessionID, CWD: "/"}, nil); err != nil {
		t.Fatalf("load: %v", err)
	}
	if got := later.text(acp.UpdateAgentMessage); got != "hello there" {
		t.Errorf("loaded, the session has the text %q", got)
	}
}

func TestACPSaysThatThereIsNoGateway(t *testing.T) {
	t.Parallel()
	conn, stderr := serveACP(t, &testEditor{}, "--url", "http://127.0.0.1:1")
	err := conn.Call(t.Context(), acp.MethodNew, acp.NewRequest{CWD: "/"}, nil)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(stderr.String(), "nothing answers at") {
		t.Errorf("got %v, and printed %q", err, stderr)
	}
}
