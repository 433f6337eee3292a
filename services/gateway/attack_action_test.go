package gateway_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/id"
)

// asks starts a thread of the caller with key, whose tenant is acme, and lets its first request end with an action that
// is open until expires.
func (b *bench) asks(key, actionID string, expires time.Time) (threadID string) {
	b.t.Helper()
	made := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+key)
	if made.status != http.StatusAccepted {
		b.t.Fatalf("got %d %s", made.status, made.body)
	}
	log := bus.LogID{Tenant: "acme", RequestID: made.header.Get("X-Request-Id")}
	w, _, err := b.bus.Claim(b.t.Context(), log, "bench", "test")
	if err != nil {
		b.t.Fatal(err)
	}
	defer w.Close()
	b.emit(w, metadata(), continuation(actionID, expires), actionRequired())
	return made.header.Get("X-Thread-Id")
}

func TestAttackApprovals(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	alice, _ := b.key("acme", "alice")
	bob, _ := b.key("acme", "bob")
	carol, _ := b.key("globex", "alice")
	later := time.Now().Add(time.Hour)
	result := func(threadID, actionID, more string) string {
		return fmt.Sprintf(`{"messages":[],"threadId":%q,"context":{"actionResults":[{"actionId":%q,"status":"success"%s}]}}`, threadID, actionID, more)
	}
	open, elsewhere := id.New(id.Action), id.New(id.Action)
	thread := b.asks(alice, open, later)
	b.asks(alice, elsewhere, later)
	old := id.New(id.Action)
	oldThread := b.asks(alice, old, time.Now().Add(-time.Minute))
	bobs := id.New(id.Action)
	bobsThread := b.asks(bob, bobs, later)
	tests := []struct {
		what, key, body string
		status          int
		code            apierr.Code
	}{
		{"by another principal", bob, result(thread, open, ""), 403, apierr.ThreadAccessDenied},
		{"by another tenant's", carol, result(thread, open, ""), 404, apierr.ThreadNotFound},
		{"by another principal, on a thread of theirs", bob, result(bobsThread, open, ""), 400, apierr.InvalidActionID},
		{"of another thread of the same principal", alice, result(thread, elsewhere, ""), 400, apierr.InvalidActionID},
		{"of another user's thread", alice, result(thread, bobs, ""), 400, apierr.InvalidActionID},
		{"that expired", alice, result(oldThread, old, ""), 400, apierr.InvalidActionID},
		{"that was not asked for", alice, result(thread, "act_unknown", ""), 400, apierr.InvalidActionID},
		{"on a new thread", alice, `{"messages":[],"context":{"actionResults":[{"actionId":"` + open + `","status":"success"}]}}`, 400, apierr.InvalidMessageFormat},
		{"with other arguments", alice, result(thread, open, `,"args":{"to":"mallory"}`), 400, apierr.InvalidMessageFormat},
		{"with another hash", alice, result(thread, open, `,"argsHash":"00"`), 400, apierr.InvalidMessageFormat},
		{"twice in one request", alice, `{"messages":[],"threadId":"` + thread + `","context":{"actionResults":[{"actionId":"` + open +
			`","status":"denied"},{"actionId":"` + open + `","status":"success"}]}}`, 400, apierr.InvalidMessageFormat},
		{"together with one that is not open", alice, `{"messages":[],"threadId":"` + thread + `","context":{"actionResults":[{"actionId":"` + open +
			`","status":"success"},{"actionId":"` + elsewhere + `","status":"success"}]}}`, 400, apierr.InvalidActionID},
		{"with a status in another case", alice, `{"messages":[],"threadId":"` + thread + `","context":{"actionResults":[{"actionId":"` + open +
			`","status":"denied","Status":"success"}]}}`, 400, apierr.InvalidMessageFormat},
	}
	for _, redis := range []string{"remembers", "has forgotten"} {
		for _, test := range tests {
			a := b.post("/v1/agents/demo/requests", test.body, "Authorization", "Bearer "+test.key)
			if a.status != test.status || a.failure(t).Code != test.code {
				t.Errorf("an action %s, while Redis %s: got %d %s, want %d %s", test.what, redis, a.status, a.body, test.status, test.code)
			}
		}
		b.redis.FlushAll()
	}
	b.redis.Set("agentbus:action:acme:"+open, `{"threadId":"`+thread+`"}`) // which another process may have put there
	if a := b.post("/v1/agents/demo/requests", result(thread, open, ""), "Authorization", "Bearer "+alice); a.status != http.StatusAccepted {
		t.Errorf("the action itself: got %d %s, want it to be open still", a.status, a.body)
	}
	for _, again := range []string{"", `,"result":1`} {
		a := b.post("/v1/agents/demo/requests", result(thread, open, again), "Authorization", "Bearer "+alice)
		if a.status != http.StatusBadRequest || a.failure(t).Code != apierr.InvalidActionID {
			t.Errorf("the action again: got %d %s", a.status, a.body)
		}
	}
}

// TestApprovedAndDeniedAtOnce has several clients decide differently at the same instant: one decision counts.
func TestApprovedAndDeniedAtOnce(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	key, _ := b.key("acme", "alice")
	for range 10 {
		action := id.New(id.Action)
		thread := b.asks(key, action, time.Now().Add(time.Hour))
		var clients sync.WaitGroup
		answers := make([]answer, 6)
		for i := range answers {
			status := []string{"success", "denied", "error"}[i%3]
			clients.Go(func() {
				answers[i] = b.post("/v1/agents/demo/requests", `{"messages":[],"threadId":"`+thread+`","context":{"actionResults":[{"actionId":"`+
					action+`","status":"`+status+`"}]}}`, "Authorization", "Bearer "+key)
			})
		}
		clients.Wait()
		taken := 0
		for _, a := range answers {
			switch {
			case a.status == http.StatusAccepted:
				taken++
			case a.status != http.StatusBadRequest || a.failure(t).Code != apierr.InvalidActionID:
				t.Errorf("got %d %s, want invalid_action_id", a.status, a.body)
			}
		}
		if taken != 1 {
			t.Errorf("%d decisions were taken, want one", taken)
		}
	}
}
