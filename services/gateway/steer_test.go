package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/go-json-experiment/json"
)

// steers returns what was said to a request.
func (b *bench) steers(requestID string) []bus.SteerRecord {
	b.t.Helper()
	var all []bus.SteerRecord
	for s, err := range b.bus.Steers(b.t.Context(), b.log(requestID), 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

func steer(text string) string { return `{"messages":[{"role":"user","content":"` + text + `"}]}` }

func TestSteer(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	path := "/v1/requests/" + requestID + "/steer"
	for i, when := range []string{"queued", "running"} {
		a := b.post(path, steer(when))
		said := b.steers(requestID)
		if a.status != http.StatusAccepted || len(said) != i+1 {
			t.Fatalf("%s: got %d %s, recorded %v", when, a.status, a.body, said)
		}
		s := said[i]
		if s.RequestID != requestID || s.By != "dev" || s.At.IsZero() || len(s.Messages) != 1 || s.Messages[0].Content.Text() != when {
			t.Errorf("%s: recorded %+v", when, s)
		}
		var got map[string]string
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got) != 3 ||
			got["requestId"] != requestID || got["steerId"] != s.SteerID || got["status"] != "accepted" {
			t.Errorf("%s: got %s, want steer %s", when, a.body, s.SteerID)
		}
		if a.header.Get("X-Request-Id") != requestID || a.header.Get("X-Thread-Id") != threadID {
			t.Errorf("%s: got %v", when, a.header)
		}
		if when == "queued" {
			b.emit(b.claim(requestID), metadata())
		}
	}
	b.run(requestID, done())
	if a := b.post(path, steer("too late")); a.status != http.StatusConflict || a.failure(t).Code != apierr.RequestFinished {
		t.Errorf("after the end: got %d %s", a.status, a.body)
	}
	if said := b.steers(requestID); len(said) != 2 {
		t.Errorf("recorded %v", said)
	}
}

func TestASteerThatWasNotReadIsReported(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	path := "/v1/requests/" + requestID
	b.post(path+"/steer", steer("read"))
	b.post(path+"/steer", steer("not read"))
	said := b.steers(requestID)
	if len(said) != 2 {
		t.Fatalf("recorded %v", said)
	}
	b.run(requestID, metadata(), event.Input{ThreadID: threadID, SteerID: said[0].SteerID, Messages: said[0].Messages}, done())
	b.archive.requests = append(b.archive.requests, historyapi.Request{RequestID: requestID, Status: historyapi.StatusDone, Owner: "dev"})
	var got struct {
		Unread []string `json:"unreadSteers"`
	}
	a := b.get(path)
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Unread) != 1 || got.Unread[0] != said[1].SteerID {
		t.Errorf("got %d %s, want %s among the unread steers", a.status, a.body, said[1].SteerID)
	}
}

func TestASteerWithAKeyIsRecordedOnce(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	path := "/v1/requests/" + requestID + "/steer"
	key := []string{"Idempotency-Key", "k"}
	const extra = `{"messages":[{"role":"user","content":[{"type":"text","text":"hm","cache":{"b":1,"a":2}}]}]}`
	first := b.post(path, extra, key...)
	if first.status != http.StatusAccepted || first.header.Get("Idempotency-Replayed") != "" {
		t.Fatalf("got %d %s %v", first.status, first.body, first.header)
	}
	again := func(when string) {
		t.Helper()
		for _, body := range []string{extra, strings.ReplaceAll(strings.Replace(extra, `"b":1,"a":2`, `"a":2,"b":1`, 1), ":", " : ")} {
			if a := b.post(path, body, key...); a.status != http.StatusAccepted || a.body != first.body || a.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s: got %d %s %v, want %s again", when, a.status, a.body, a.header, first.body)
			}
		}
		if a := b.post(path, steer("other"), key...); a.status != 422 || a.failure(t).Code != apierr.IdempotencyMismatch {
			t.Errorf("%s, another body: got %d %s", when, a.status, a.body)
		}
	}
	again("while it runs")
	b.run(requestID, metadata(), done())
	again("when it has ended")
	if a := b.post(path, extra, "Idempotency-Key", "other"); a.status != http.StatusConflict {
		t.Errorf("another key after the end: got %d %s", a.status, a.body)
	}
	if said := b.steers(requestID); len(said) != 1 {
		t.Errorf("recorded %v", said)
	}
	other, _ := b.accepted(hello)
	if a := b.post("/v1/requests/"+other+"/steer", extra, key...); a.status != http.StatusAccepted || a.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("the same key for another request: got %d %s", a.status, a.body)
	}
}

func TestARequestIsSteeredSoOftenAndNoMore(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	path := "/v1/requests/" + requestID + "/steer"
	if a := b.post(path, steer("hm"), "Idempotency-Key", "k"); a.status != http.StatusAccepted {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	for i := range 99 {
		s := record.Steer{RequestID: requestID, SteerID: fmt.Sprint("more_", i), By: "dev"}
		if _, _, err := b.bus.Steer(t.Context(), b.log(requestID).Tenant, s); err != nil {
			t.Fatal(err)
		}
	}
	a := b.post(path, steer("once more"))
	if f := a.failure(t); a.status != http.StatusTooManyRequests || f.Code != apierr.RateLimitExceeded || f.Retryable {
		t.Errorf("got %d %s, want the limit's error", a.status, a.body)
	}
	if a := b.post(path, steer("hm"), "Idempotency-Key", "k"); a.status != http.StatusAccepted {
		t.Errorf("a retry: got %d %s", a.status, a.body)
	}
}

// TestWhatMayBeSaidToARequest goes for both routes where it does not say otherwise.
func TestWhatMayBeSaidToARequest(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	tests := []struct{ what, body, says string }{
		{"nothing", ``, "must be a JSON object"},
		{"no messages", `{}`, "messages is missing"},
		{"empty messages", `{"messages":[]}`, "messages is empty"},
		{"a message of the assistant", `{"messages":[{"role":"assistant","content":"hi"}]}`, "messages[0].role"},
		{"a message of the system", `{"messages":[{"role":"system","content":"obey"}]}`, "messages[0].role"},
		{"an unknown member", `{"messages":[{"role":"user","content":"hi"}],"requestId":"x"}`, "requestId is not a member"},
		{"a member twice", `{"messages":[{"role":"user","content":"hi"}],"messages":[]}`, "messages appears twice"},
		{"a thread", onThread(threadID), "leave out threadId"},
		{"action results", resolving(threadID, "act_1"), "leave out threadId"},
	}
	for _, route := range []string{"/steer", "/follow-up"} {
		for _, test := range tests {
			a := b.post("/v1/requests/"+requestID+route, test.body)
			if a.status != 400 || a.failure(t).Code != apierr.InvalidMessageFormat || !strings.Contains(a.body, test.says) {
				t.Errorf("%s, %s: got %d %s, want %q", route, test.what, a.status, a.body, test.says)
			}
		}
		if a := b.post("/v1/requests/req_none"+route, hello); a.status != 404 || a.failure(t).Code != apierr.RequestNotFound {
			t.Errorf("%s to an unknown request: got %d %s", route, a.status, a.body)
		}
		if a := b.post("/v1/requests/"+requestID+route, hello, "Idempotency-Key", ""); a.status != 400 {
			t.Errorf("%s with an empty key: got %d %s", route, a.status, a.body)
		}
	}
	body := `{"messages":[{"role":"user","content":"hi"}],"context":{"note":"other"}}`
	if a := b.post("/v1/requests/"+requestID+"/steer", body); a.status != 400 || !strings.Contains(a.body, "leave out threadId and context") {
		t.Errorf("a steer with a context: got %d %s", a.status, a.body)
	}
	if a := b.post("/v1/requests/"+requestID+"/follow-up", body); a.status != http.StatusAccepted {
		t.Errorf("a follow-up with a context: got %d %s", a.status, a.body)
	}
	if said := b.steers(requestID); len(said) != 0 {
		t.Errorf("recorded %v", said)
	}
}

func TestOnlyTheOwnerSpeaksToARequest(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	key := func(tenant, subject string, scopes ...auth.Scope) []string {
		plain, _ := b.key(tenant, subject, scopes...)
		return []string{"Authorization", "Bearer " + plain}
	}
	owner := key("default", "ada", auth.ScopeRun)
	a := b.post("/v1/agents/demo/requests", hello, owner...)
	if a.status != http.StatusAccepted {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	path := "/v1/requests/" + a.header.Get("X-Request-Id")
	tests := []struct {
		who    string
		header []string
		status int
		code   apierr.Code
	}{
		{"a client without a key", nil, 401, apierr.AuthFailed},
		{"a key that may only read", key("default", "eve", auth.ScopeRead), 401, apierr.AuthFailed},
		{"a colleague", key("default", "bob", auth.ScopeRun), 403, apierr.ThreadAccessDenied},
		{"another tenant", key("other", "ada", auth.ScopeRun), 404, apierr.RequestNotFound},
	}
	for _, route := range []string{"/steer", "/follow-up"} {
		for _, test := range tests {
			if a := b.post(path+route, hello, test.header...); a.status != test.status || a.failure(t).Code != test.code {
				t.Errorf("%s, %s: got %d %s, want %d %s", route, test.who, a.status, a.body, test.status, test.code)
			}
		}
		if a := b.post(path+route, hello, owner...); a.status != http.StatusAccepted {
			t.Errorf("%s, the owner: got %d %s", route, a.status, a.body)
		}
	}
}

func TestAFollowUpWaitsWhateverTheAgentDoes(t *testing.T) {
	t.Parallel()
	b := start(t, withPolicies)
	pointed := b.pointed()
	first, threadID := b.accepted(hello)
	path := "/v1/requests/" + first + "/follow-up"
	a := b.post(path, hello, "Idempotency-Key", "k")
	second := a.header.Get("X-Request-Id")
	if a.status != http.StatusAccepted || a.header.Get("Location") != "/v1/requests/"+second ||
		a.body != `{"requestId":"`+second+`","threadId":"`+threadID+`","agentId":"demo","status":"queued"}`+"\n" {
		t.Fatalf("got %d %s %v", a.status, a.body, a.header)
	}
	if r := b.record(threadID); r.RequestID != second || r.AgentID != "demo" || r.Index != 1 || r.Behind != 1 {
		t.Errorf("got record %+v", r)
	}
	if a := b.post(path, hello, "Idempotency-Key", "k"); a.header.Get("X-Request-Id") != second || a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("again: got %d %s %v", a.status, a.body, a.header)
	}
	if a := b.post("/v1/requests/"+second+"/follow-up", hello, "Idempotency-Key", "k"); a.status != 422 {
		t.Errorf("the key of another follow-up: got %d %s", a.status, a.body)
	}
	b.refused("an ordinary request of an agent that rejects", b.send("demo", threadID), first)
	third := b.post("/v1/requests/"+second+"/follow-up", hello) // of one that waits itself
	if third.status != http.StatusAccepted {
		t.Errorf("got %d %s", third.status, third.body)
	}
	b.refused("one too many", b.post(path, hello), first)
	b.pointers(pointed, first)
	for i, requestID := range []string{first, second, third.header.Get("X-Request-Id")} {
		b.run(requestID, metadata(), done())
		b.startNext(threadID, i)
	}
	fourth := b.post(path, hello) // nothing runs any more
	b.pointers(pointed, first, second, third.header.Get("X-Request-Id"), fourth.header.Get("X-Request-Id"))
}

func TestFollowUpOfRemovedAgent(t *testing.T) {
	t.Parallel()
	agents := map[string]config.Agent{"demo": {Backend: "scripted"}}
	b := start(t, func(d *gateway.Deps) { d.Config.Agents = agents })
	requestID, _ := b.accepted(hello)
	delete(agents, "demo") // no call is under way
	a := b.post("/v1/requests/"+requestID+"/follow-up", hello)
	if a.status != http.StatusNotFound || a.failure(t).Code != apierr.AgentNotFound {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if a := b.post("/v1/requests/"+requestID+"/steer", hello); a.status != http.StatusAccepted {
		t.Errorf("a steer: got %d %s", a.status, a.body)
	}
}

func TestSteerOfARequestInHistory(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.archive.keep(frame(t, 0, metadata(), done()))
	if a := b.post("/v1/requests/req_old/steer", hello); a.status != http.StatusConflict || a.failure(t).Code != apierr.RequestFinished {
		t.Errorf("a steer: got %d %s", a.status, a.body)
	}
	a := b.post("/v1/requests/req_old/follow-up", hello)
	if a.status != http.StatusAccepted || a.header.Get("X-Thread-Id") != "thr_old" {
		t.Fatalf("a follow-up: got %d %s", a.status, a.body)
	}
	if r := b.record("thr_old"); r.Index != 1 || r.Behind != 0 {
		t.Errorf("got record %+v", r)
	}
}
