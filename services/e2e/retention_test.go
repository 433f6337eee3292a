package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/tool"
)

// retention is what the streams of TestWhatExpiresIsReadFromHistory keep events for.
const retention = 8 * time.Second

// callers are an agent that calls another one.
const callers = `
agents:
  helper: {description: does a task, backend: scripted, tools: [echo]}
  lead: {description: calls others, backend: scripted, agents: [helper]}
`

// TestWhatExpiresIsReadFromHistory lets requests expire from the streams while others run.
func TestWhatExpiresIsReadFromHistory(t *testing.T) {
	l := newLab(t, setup{
		database: database(t), echo: tool.EffectUnsafe, agents: callers, env: []string{"NATS_MAX_AGE=" + retention.String()},
	})
	key, onThread := header{"Idempotency-Key", newKey()}, header{"Idempotency-Key", newKey()}
	keyed := prompt(`/tool echo {"text":"once"}`, "/say done")
	once := l.post(t, 0, keyed, key).end(t, time.Minute)
	plain := l.post(t, 0, prompt("/stream 200 40", "/say first")).end(t, time.Minute)
	second := l.post(t, 0, on(plain.ThreadID, "/say second"), onThread).end(t, time.Minute)
	paused := l.post(t, 0, prompt(`/approve echo {"text":"careful"}`, "/say after")).end(t, time.Minute)
	below := l.lead(t, prompt(ask("helper", `/approve echo {"text":"careful"}`, "/say below"), "/say above")).end(t, time.Minute)
	asked := time.Now()
	defer l.load(t)()

	// The gateway takes an action for 5 s after it has expired. Everything that announced it has expired by then.
	time.Sleep(time.Until(asked.Add(retention + 1500*time.Millisecond)))
	after := l.post(t, 0, approve(t, paused))
	above := l.lead(t, approve(t, below))
	if tr := after.end(t, time.Minute); tr.results()["echo"].Status != event.ToolSuccess || answerText(tr.done(t)) != "after" {
		t.Errorf("the approved call got %+v, and the request said %q", tr.results(), answerText(tr.done(t)))
	}
	if tr := above.end(t, time.Minute); answerText(tr.done(t)) != "above" || tr.results()["agent__helper"].Status != event.ToolSuccess {
		t.Errorf("the approval for an agent that was called: got %+v in\n%s", tr.results(), strings.Join(tr.Lines, "\n"))
	}

	for _, old := range []transcript{once, plain, second, paused} {
		l.finished(t, old)
	}
	l.keysHold(t, keyed, once, key)
	l.keysHold(t, on(plain.ThreadID, "/say second"), second, onThread)
	for _, from := range []int{0, len(plain.Lines) / 2, len(plain.Lines) - 2} {
		rest := l.resume(t, 0, plain.RequestID, string(plain.Events[from].ID)).end(t, time.Minute)
		if !slices.Equal(rest.Lines, plain.Lines[from+1:]) {
			t.Errorf("behind event %d came %d events, want %d", from, len(rest.Lines), len(plain.Lines)-from-1)
		}
	}
	third := l.post(t, 0, on(plain.ThreadID, "/say third")).end(t, time.Minute)
	if got := answerText(third.done(t)); got != "third" {
		t.Errorf("a request on a thread whose earlier ones have expired said %q", got)
	}
	page, status := answer[historyapi.MessagePage](t, l.URL+"/v1/threads/"+plain.ThreadID+"/messages")
	if status != http.StatusOK || len(page.Messages) != 6 {
		t.Errorf("got %d messages with status %d, want 6", len(page.Messages), status)
	}
}

// load makes requests until the function that it returns is called.
func (l lab) load(t *testing.T) (stop func()) {
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		for {
			select {
			case <-stopped:
				return
			case <-time.After(100 * time.Millisecond):
				if _, err := try(t.Context(), http.MethodPost, l.URL+"/v1/agents/demo/stream", prompt("/stream 50 50")); err != nil {
					t.Errorf("a request under load: %v", err)
				}
			}
		}
	}()
	return func() {
		close(stopped)
		<-done
	}
}

// lead starts a request of the agent that calls another one.
func (l lab) lead(t *testing.T, body string) *watch {
	t.Helper()
	return l.read(t.Context(), t, http.MethodPost, l.URL+"/v1/agents/lead/stream", body)
}

// approve is the body that approves the one action of a request.
func approve(t *testing.T, tr transcript) string {
	t.Helper()
	return resolve(tr.ThreadID, event.ActionResult{ActionID: only[event.Continuation](t, tr).ActionID, Status: event.ActionSuccess})
}

// keysHold uses a key again, on both routes, with the body of the first request and with another one.
func (l lab) keysHold(t *testing.T, body string, first transcript, key header) {
	t.Helper()
	calls := l.calls(t)
	w := l.post(t, 0, body, key)
	if tr := w.end(t, time.Minute); tr.RequestID != first.RequestID || !slices.Equal(tr.Lines, first.Lines) {
		t.Errorf("the key made request %s with %d events, want %s with %d", tr.RequestID, len(tr.Lines), first.RequestID, len(first.Lines))
	}
	if w.header.Get("Idempotency-Replayed") != "true" {
		t.Error("the answer does not say that it is a replay")
	}
	if requestID, refusal := l.background(t, body, key); refusal != nil || requestID != first.RequestID {
		t.Errorf("the other route made request %q, want %s", requestID, first.RequestID)
	}
	_, refusal := l.background(t, prompt("/say something else"), key)
	if refusal == nil {
		t.Fatal("the key made another request")
	}
	wantFault(t, refusal, http.StatusUnprocessableEntity, apierr.IdempotencyMismatch)
	if now := l.calls(t); now != calls {
		t.Errorf("%v calls ran again", now-calls)
	}
}

// calls is how many calls of the tool echo have run, as far as the stack counts them.
func (l lab) calls(t *testing.T) (sum float64) {
	t.Helper()
	for _, p := range l.Processes("tool-executor") {
		sum += metric(t, p, "agentbus_tool_calls_total", `"echo"`)
	}
	return sum
}

// on is a request body with one user message on a thread.
func on(threadID, text string) string {
	return requestBody(event.AgentRequest{ThreadID: threadID, Messages: []event.InputMessage{event.UserText(text)}})
}
