package e2e

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/query"
)

// retention is what the streams of TestWhatExpiresIsReadFromHistory keep events for.
const retention = 8 * time.Second

// TestWhatExpiresIsReadFromHistory lets requests expire from the streams while others run.
func TestWhatExpiresIsReadFromHistory(t *testing.T) {
	l := newLab(t, setup{database: database(t), env: []string{"NATS_MAX_AGE=" + retention.String()}})
	plain := l.post(t, 0, prompt("/stream 200 40", "/say first")).end(t, time.Minute)
	second := l.post(t, 0, on(plain.ThreadID, "/say second")).end(t, time.Minute)
	paused := l.post(t, 0, prompt(`/approve echo {"text":"careful"}`, "/say after")).end(t, time.Minute)
	action := only[event.Continuation](t, paused)
	asked := time.Now()

	stop, load := make(chan struct{}), sync.WaitGroup{}
	load.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				if _, err := try(t.Context(), http.MethodPost, l.URL+"/v1/agents/demo/stream", prompt("/stream 50 50")); err != nil {
					t.Errorf("a request under load: %v", err)
				}
			}
		}
	})
	defer load.Wait()
	defer close(stop)

	// The gateway takes an action for some seconds after its end: then everything that announced it has expired.
	time.Sleep(time.Until(asked.Add(retention + 2*time.Second)))
	body := resolve(paused.ThreadID, event.ActionResult{ActionID: action.ActionID, Status: event.ActionSuccess})
	approved := l.post(t, 0, body).end(t, time.Minute)
	if r := approved.results()["echo"]; r.Status != event.ToolSuccess {
		t.Errorf("the approved call got %+v", r)
	}
	if got := answerText(approved.done(t)); got != "after" {
		t.Errorf("the approved request said %q", got)
	}

	for _, old := range []transcript{plain, second, paused} {
		l.finished(t, old)
	}
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
	page, status := answer[query.MessagePage](t, l.URL+"/v1/threads/"+plain.ThreadID+"/messages")
	if status != http.StatusOK || len(page.Messages) != 6 {
		t.Errorf("got %d messages with status %d, want 6", len(page.Messages), status)
	}
}

// on is a request body with one user message on a thread.
func on(threadID, text string) string {
	return requestBody(event.AgentRequest{ThreadID: threadID, Messages: []event.InputMessage{event.UserText(text)}})
}
