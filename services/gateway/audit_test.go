package gateway_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/go-json-experiment/json"
)

// ledger collects what a gateway says of access to events.
type ledger struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *ledger) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// entry is a line of it.
type entry struct {
	Level   string `json:"level"`
	Message string `json:"msg"`
	Tenant  string `json:"tenant"`
	Subject string `json:"subject"`
	Key     string `json:"keyId"`
	Route   string `json:"route"`
	Session string `json:"threadId"`
	Request string `json:"requestId"`
	Outcome string `json:"outcome"`
}

// take returns the entries since the last take.
func (l *ledger) take(t *testing.T) []entry {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []entry
	for line := range strings.Lines(l.text.String()) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Message == "event access" {
			all = append(all, e)
		}
	}
	l.text.Reset()
	return all
}

func withLedger(l *ledger) func(*gateway.Deps) {
	return func(d *gateway.Deps) { d.Log = slog.New(slog.NewJSONHandler(l, nil)) }
}

// TestEveryReadOfEventsIsAudited walks the routes: each that gives events of a thread says who was given them, or was not
// let.
func TestEveryReadOfEventsIsAudited(t *testing.T) {
	t.Parallel()
	var log ledger
	short := func(d *gateway.Deps) { d.Config.Gateway.StreamTimeout = config.Duration(300 * time.Millisecond) } // no runner has it
	b := start(t, withKeys, withLedger(&log), short)
	alice, record := b.key("acme", "alice")
	bob, _ := b.key("acme", "bob")
	made := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+alice)
	to := target{"demo", made.header.Get("X-Request-Id"), made.header.Get("X-Thread-Id")}
	if told := log.take(t); len(told) > 0 {
		t.Errorf("who begins a thread has read nothing: got %+v", told)
	}
	for _, r := range b.routes() {
		if !readsEvents(r) {
			continue
		}
		path, body := r.with(to, ""), mention(to.threadID)
		if r.method == http.MethodGet {
			body = ""
		}
		request := ""
		if strings.Contains(r.path, ":requestId") {
			request = to.requestID
		}
		_ = b.do(b.request(r.method, path, body, "Authorization", "Bearer "+alice))
		want := entry{"INFO", "event access", "acme", "alice", record.ID, r.path, to.threadID, request, "allowed"}
		if told := log.take(t); len(told) != 1 || told[0] != want {
			t.Errorf("%s: got %+v, want %+v", r, told, want)
		}
	}
	for _, r := range b.routes() {
		if !readsEvents(r) {
			continue
		}
		_ = b.do(b.request(r.method, r.with(to, ""), mention(to.threadID), "Authorization", "Bearer "+bob))
		told := log.take(t)
		if len(told) != 1 || told[0].Level != "WARN" || told[0].Subject != "bob" || told[0].Outcome != "thread_access_denied" || told[0].Route != r.path {
			t.Errorf("%s by another user: got %+v", r, told)
		}
	}
}

func TestReadsAreNotAuditedWithoutKeys(t *testing.T) {
	t.Parallel()
	var log ledger
	b := start(t, withLedger(&log))
	if got := b.do(b.request(http.MethodGet, "/v1/requests/req_unknown/stream", "")); got.status != http.StatusNotFound {
		t.Fatalf("got %d, want 404", got.status)
	}
	if got := log.take(t); len(got) > 0 {
		t.Errorf("got %+v, want no entry at INFO or above", got)
	}
}

// readsEvents says which routes give what has happened on a thread.
func readsEvents(r route) bool {
	switch r.path {
	case "/v1/requests/:requestId", "/v1/requests/:requestId/stream", "/v1/threads/:threadId/stream",
		"/v1/threads/:threadId/messages", "/v1/threads/:threadId/events", "/v1/threads/:threadId/objects/:objectId",
		"/streams/:requestId", "/streams/threads/:threadId", "/api/v1/sessions/events", "/api/v1/sessions/events/stream", "/api/v1/sessions/share":
		return true
	}
	return false
}

func TestJoinOfASessionIsAudited(t *testing.T) {
	t.Parallel()
	var log ledger
	debug := func(d *gateway.Deps) { // the level of entries without API keys
		d.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	b := start(t, debug)
	id := b.session()
	log.take(t)
	p := b.dial("")
	p.join(id, "")
	p.say(`{"type":"join_session","sessionId":"thr_none"}`)
	if m := p.readAnswer(); m.Type != "error" {
		t.Errorf("got %+v", m)
	}
	told := log.take(t)
	if len(told) != 2 || told[0].Session != id || told[0].Outcome != "allowed" || told[0].Route != "/ws" ||
		told[1].Session != "thr_none" || told[1].Outcome != "thread_not_found" {
		t.Errorf("got %+v", told)
	}
}
