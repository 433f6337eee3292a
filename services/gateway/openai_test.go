package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway"
)

// completion is a request of OpenAI's API that waits for its end.
const completion = `{"model":"demo","messages":[{"role":"user","content":"hi"}]}`

func TestACompletionThatNoRunnerStartsEndsAtTheAdmissionTimeout(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		d.Config.Gateway.AdmissionTimeout = config.Duration(300 * time.Millisecond)
		d.Config.Gateway.Heartbeat = config.Duration(20 * time.Millisecond)
	})
	a := b.post("/openai/v1/chat/completions", completion)
	requestID := a.header.Get("X-Request-Id")
	if a.status != http.StatusGatewayTimeout || !strings.Contains(a.body, `"code":"stream_timeout"`) {
		t.Fatalf("got %d %s, want 504", a.status, a.body)
	}
	abort, err := b.bus.Aborted(t.Context(), b.log(requestID))
	if err != nil || !strings.Contains(abort.Reason, "admissionTimeout") {
		t.Errorf("got the abort %+v, %v; want one with the reason", abort, err)
	}
}

func TestACompletionThatDoesNotEndInTimeLeavesTheRequest(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.StreamTimeout = config.Duration(500 * time.Millisecond) })
	requestID, _ := b.accepted(hello)
	w := b.claim(requestID)
	b.emit(w, metadata())
	if a := b.get("/openai/v1/chat/completions/chatcmpl-" + requestID); a.status != http.StatusGatewayTimeout {
		t.Errorf("got %d %s, want 504", a.status, a.body)
	}
	b.emit(w, event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageStop}, Text: "42"}, done())
	a := b.get("/openai/v1/chat/completions/chatcmpl-" + requestID)
	if a.status != http.StatusOK || !strings.Contains(a.body, `"content":"42"`) {
		t.Errorf("after the end: got %d %s, want the completion", a.status, a.body)
	}
}

// TestAReaderOfACompletionDoesNotAbortIt leaves while it waits for a request whose agent aborts when its client disconnects.
func TestAReaderOfACompletionDoesNotAbortIt(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		demo := d.Config.Agents["demo"]
		demo.OnDisconnect = config.OnDisconnectAbort
		d.Config.Agents = map[string]config.Agent{"demo": demo}
		d.Config.Gateway.AdmissionTimeout = config.Duration(100 * time.Millisecond)
		d.Config.Gateway.StreamTimeout = config.Duration(300 * time.Millisecond)
	})
	requestID, _ := b.accepted(hello) // that no runner has started
	if a := b.get("/openai/v1/chat/completions/" + requestID); a.status != http.StatusGatewayTimeout {
		t.Errorf("got %d %s, want 504", a.status, a.body)
	}
	if abort, err := b.bus.Aborted(t.Context(), b.log(requestID)); err == nil {
		t.Errorf("the request was aborted: %+v", abort)
	}
}
