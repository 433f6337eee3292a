package client_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
)

// listener is a server that answers calls as the test says.
type listener struct {
	answer func(call int, w http.ResponseWriter)

	mu    sync.Mutex
	calls []string // path and body
	keys  []string
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	call := len(l.calls)
	l.calls = append(l.calls, r.Method+" "+r.URL.Path+" "+string(body))
	l.keys = append(l.keys, r.Header.Get("Idempotency-Key"))
	l.mu.Unlock()
	l.answer(call, w)
}

func refusal(w http.ResponseWriter, status int, code apierr.Code, retryable bool) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"event":"error","requestId":"","timestamp":"2026-01-01T00:00:00Z","code":%q,"message":"no","retryable":%v}`, code, retryable)
}

func TestEventsAreReportedOnce(t *testing.T) {
	t.Parallel()
	const (
		steer    = `POST /v1/requests/req_1/steer {"messages":[{"role":"user","content":"in French"}]}`
		followUp = `POST /v1/requests/req_1/follow-up {"messages":[{"role":"user","content":"and then"}]}`
	)
	tests := map[string]struct {
		answer func(call int, w http.ResponseWriter)
		calls  int
		code   apierr.Code // "" = it works
	}{
		"at once": {func(_ int, w http.ResponseWriter) { taken(w) }, 1, ""},
		"after a connection that was cut": {func(call int, w http.ResponseWriter) {
			if call == 0 {
				panic(http.ErrAbortHandler)
			}
			taken(w)
		}, 2, ""},
		"after an answer that was cut": {func(call int, w http.ResponseWriter) {
			if call == 0 {
				w.Header().Set("Content-Length", "100")
				return
			}
			taken(w)
		}, 2, ""},
		"while the bus is away": {func(_ int, w http.ResponseWriter) { refusal(w, 503, apierr.Unavailable, true) }, 3, apierr.Unavailable},
		"when it is too late":   {func(_ int, w http.ResponseWriter) { refusal(w, 409, apierr.RequestFinished, false) }, 1, apierr.RequestFinished},
		"when too many wait":    {func(_ int, w http.ResponseWriter) { refusal(w, 409, apierr.ThreadBusy, true) }, 1, apierr.ThreadBusy},
		"to no gateway":         {func(_ int, w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") }, 1, apierr.Internal},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for want, tell := range map[string]func(*client.Client) (string, error){
				steer: func(c *client.Client) (string, error) {
					return c.Steer(t.Context(), "req_1", event.UserText("in French"))
				},
				followUp: func(c *client.Client) (string, error) {
					started, err := c.FollowUp(t.Context(), "req_1", event.AgentRequest{Messages: []event.InputMessage{event.UserText("and then")}})
					return started.RequestID, err
				},
			} {
				l := &listener{answer: test.answer}
				got, err := tell(serve(t, l))
				if code := apierr.CodeOf(err); code != test.code || err == nil && got != "told_1" {
					t.Errorf("%s: got %q, %v, want %q", want, got, err, test.code)
				}
				if !slices.Equal(l.calls, slices.Repeat([]string{want}, test.calls)) || l.keys[0] == "" || len(slices.Compact(l.keys)) != 1 {
					t.Errorf("got calls %q with keys %q, want %d of %s with one key", l.calls, l.keys, test.calls, want)
				}
			}
		})
	}
}

// taken answers both calls.
func taken(w http.ResponseWriter) {
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"requestId":"told_1","steerId":"told_1","threadId":"thr_1","agentId":"demo","status":"queued"}`)
}
