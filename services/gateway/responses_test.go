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

func TestAResponseThatNoRunnerStartsEndsAtTheAdmissionTimeout(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		d.Config.Gateway.AdmissionTimeout = config.Duration(300 * time.Millisecond)
		d.Config.Gateway.Heartbeat = config.Duration(20 * time.Millisecond)
	})
	a := b.post("/openai/v1/responses", `{"model":"demo","input":"hi"}`)
	requestID := a.header.Get("X-Request-Id")
	if a.status != http.StatusGatewayTimeout || !strings.Contains(a.body, `"code":"stream_timeout"`) || a.header.Get("X-Should-Retry") != "" {
		t.Fatalf("got %d %v %s, want 504", a.status, a.header, a.body)
	}
	if _, err := b.bus.Aborted(t.Context(), b.log(requestID)); err != nil {
		t.Errorf("got %v, want an abort", err)
	}
}

// TestClientsDoNotRepeatARequestThatContinues waits for a request longer than a response may last.
func TestClientsDoNotRepeatARequestThatContinues(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.StreamTimeout = config.Duration(300 * time.Millisecond) })
	for path, body := range map[string]string{"/openai/v1/responses": `{"model":"demo","input":"hi"}`, "/openai/v1/chat/completions": completion} {
		a := b.post(path, body)
		if a.status != http.StatusGatewayTimeout || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: got %d %v %s, want 504 that clients do not repeat", path, a.status, a.header, a.body)
		}
	}
}

// TestAResponseInTheBackground reads a response at each state, on a gateway that aborts requests that wait or lose their client.
func TestAResponseInTheBackground(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		demo := d.Config.Agents["demo"]
		demo.OnDisconnect = config.OnDisconnectAbort
		d.Config.Agents = map[string]config.Agent{"demo": demo}
		d.Config.Gateway.AdmissionTimeout = config.Duration(50 * time.Millisecond)
	})
	a := b.post("/openai/v1/responses", `{"model":"demo","input":"hi","background":true,"metadata":{"a":"b"}}`)
	requestID := a.header.Get("X-Request-Id")
	for _, part := range []string{`"id":"resp_` + requestID, `"status":"queued"`, `"background":true`, `"metadata":{"a":"b"}`, `"output":[]`} {
		if a.status != http.StatusOK || !strings.Contains(a.body, part) {
			t.Fatalf("at first: got %d %s, want %s", a.status, a.body, part)
		}
	}
	path := "/openai/v1/responses/resp_" + requestID
	if queued := b.get(path); queued.body != a.body {
		t.Errorf("queued: got %s, want %s", queued.body, a.body)
	}
	w := b.claim(requestID)
	b.emit(w, metadata(), event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageStart}},
		event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageDelta}, Delta: "4"})
	if running := b.get(path); !strings.Contains(running.body, `"status":"in_progress","role":"assistant","content":[{"type":"output_text","text":"4"`) {
		t.Errorf("running: got %s, want the text so far", running.body)
	}
	b.emit(w, event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageStop}, Text: "42"}, done())
	if ended := b.get(path); !strings.Contains(ended.body, `"text":"42"`) || !strings.Contains(ended.body, `"status":"completed"`) {
		t.Errorf("ended: got %s, want the text", ended.body)
	}
	if abort, err := b.bus.Aborted(t.Context(), b.log(requestID)); err == nil {
		t.Errorf("the request was aborted: %+v", abort)
	}
	if items := b.get(path + "/input_items"); !strings.Contains(items.body, `"content":[{"type":"input_text","text":"hi"}]`) {
		t.Errorf("input items: got %d %s, want the message", items.status, items.body)
	}
}

func TestPositionsOfAResponse(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	b.emit(b.claim(requestID), metadata(), done())
	path := "/openai/v1/responses/resp_" + requestID
	tests := []struct {
		query  string
		status int
		first  string // event; "" = no event
	}{
		{"?stream=true", http.StatusOK, `"sequence_number":0,`},
		{"?stream=true&starting_after=1", http.StatusOK, `"sequence_number":2,`},
		{"?stream=true&starting_after=99", http.StatusOK, ""},
		{"?starting_after=1", http.StatusBadRequest, ""},
		{"?stream=true&starting_after=-1", http.StatusBadRequest, ""},
		{"?stream=true&starting_after=1e3", http.StatusBadRequest, ""},
		{"?stream=true&starting_after=99999999999999999999", http.StatusBadRequest, ""},
		{"?stream=maybe", http.StatusBadRequest, ""},
		{"/input_items?limit=0", http.StatusBadRequest, ""},
		{"/input_items?limit=101", http.StatusBadRequest, ""},
		{"/input_items?order=up", http.StatusBadRequest, ""},
		{"/input_items?after=in_other", http.StatusBadRequest, ""},
		{"/input_items?limit=1&order=asc", http.StatusOK, ""},
	}
	for _, test := range tests {
		a := b.get(path + test.query)
		_, data, _ := strings.Cut(a.body, "data: ")
		if a.status != test.status || !strings.Contains(data, test.first) || test.first == "" && data != "" {
			t.Errorf("%s: got %d %.200s, want %d and first %q", test.query, a.status, a.body, test.status, test.first)
		}
	}
}
