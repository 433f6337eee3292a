package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
)

func TestAttackKeys(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys, everything(t))
	good, record := b.key("acme", "alice")
	_, other := b.key("globex", "alice")
	secret := good[strings.LastIndexByte(good, '_')+1:]
	revoked := b.keyThat(func(k *bus.KeyRecord) { k.Revoked = true })
	expired := b.keyThat(func(k *bus.KeyRecord) { k.ExpiresAt = time.Now().Add(-time.Second) })
	bearer := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	tests := map[string][]string{
		"no header":                       nil,
		"an empty header":                 {"Authorization", ""},
		"a scheme alone":                  {"Authorization", "Bearer"},
		"a scheme and spaces":             {"Authorization", "Bearer  "},
		"another scheme":                  {"Authorization", "Basic " + good},
		"no scheme":                       {"Authorization", good},
		"two headers":                     {"Authorization", "Bearer " + good, "Authorization", "Bearer " + good},
		"two keys":                        bearer(good + ", " + good),
		"another header":                  {"X-Key", good},
		"two headers with a key":          {"X-Api-Key", good, "X-Api-Key", good},
		"a cookie":                        {"Cookie", "key=" + good},
		"a revoked key":                   bearer(revoked),
		"a key that expired a second ago": bearer(expired),
		"a key without its secret":        bearer(record.ID + "_"),
		"a key without its id":            bearer("_" + secret),
		"the id alone":                    bearer(record.ID),
		"another secret":                  bearer(record.ID + "_" + strings.Repeat("0", len(secret))),
		"a part of the secret":            bearer(good[:len(good)-1]),
		"more than the secret":            bearer(good + "0"),
		"the secret in capitals":          bearer(record.ID + "_" + strings.ToUpper(secret)),
		"the secret of another key":       bearer(other.ID + "_" + secret),
		"a token without a signature":     bearer("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsInRlbmFudCI6ImFjbWUifQ."),
		"a wildcard":                      bearer(">_" + secret),
		"a subject":                       bearer("$KV.agentbus.>_" + secret),
		"a long key":                      bearer(strings.Repeat("a", 8000)),
		"an odd key":                      bearer("é\u202e🙂_x"),
	}
	walked := 0
	for _, r := range b.routes() {
		if keyless := r.spec.Scope == ""; keyless != r.keyless() {
			t.Errorf("%s: got that it needs no key: %v, want %v", r, keyless, r.keyless())
		}
		if r.keyless() {
			continue
		}
		walked++
		to := target{"demo", "req_none", "thr_none"}
		for what, headers := range tests {
			a := b.do(b.request(r.method, r.at(to), hello, headers...))
			if a.status == http.StatusTooManyRequests {
				b.redis.FlushAll() // so many wrong keys: see TestWrongKeysAreDelayed
				a = b.do(b.request(r.method, r.at(to), hello, headers...))
			}
			if a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s with %s: got %d %.200s %v, want 401", r, what, a.status, a.body, a.err)
				continue
			}
			r.refusal(t, a, apierr.AuthFailed)
			if strings.Contains(a.body, secret) {
				t.Errorf("%s with %s: the answer contains the secret", r, what)
			}
		}
		b.redis.FlushAll()
		b.attackKeyOutOfPlace(r, good)
		if a := b.do(b.request(r.method, r.at(to), "no request", bearer(good)...)); a.status == http.StatusUnauthorized {
			t.Errorf("%s with a good key: got %d %s", r, a.status, a.body)
		}
	}
	if walked < 40 {
		t.Errorf("only %d routes ask for a key", walked)
	}
}

// attackKeyOutOfPlace gives a good key where a route must not look for one.
func (b *bench) attackKeyOutOfPlace(r route, good string) {
	b.t.Helper()
	to := target{"demo", "req_none", "thr_none"}
	inURL := "?key=" + good + "&access_token=" + good + "&authorization=Bearer+" + good
	if a := b.do(b.request(r.method, r.at(to)+inURL, hello)); a.status != http.StatusUnauthorized {
		b.t.Errorf("%s with a key in the URL: got %d", r, a.status)
	}
	if r.spec.BearerSubprotocol {
		return // where a page has no other place for it
	}
	if a := b.do(b.request(r.method, r.at(to), hello, "Sec-WebSocket-Protocol", "bearer, "+good)); a.status != http.StatusUnauthorized {
		b.t.Errorf("%s with a key as a subprotocol: got %d", r, a.status)
	}
}

// keyThat makes a key whose record is changed before the gateway knows it.
func (b *bench) keyThat(change func(*bus.KeyRecord)) string {
	b.t.Helper()
	issuer, err := auth.NewIssuer([]byte(pepper))
	if err != nil {
		b.t.Fatal(err)
	}
	plain, record, err := issuer.New("acme", "alice", nil, time.Hour, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	k := bus.KeyRecord(record)
	change(&k)
	if err := b.bus.PutKey(b.t.Context(), k); err != nil {
		b.t.Fatal(err)
	}
	return plain
}

// namesNothing reports whether the route names no request and no thread: it answers from what the caller owns, and shows
// nothing else. A new route does not, until it is listed here.
func (r route) namesNothing() bool {
	return slices.Contains([]string{
		"GET /v1/actions", "GET /v1/agents", "GET /agui/:agentName/info", "GET /a2a/:agentName/extendedAgentCard", "GET /a2a/:agentName/tasks", "GET /openai/v1/models", "GET /openai/v1/models/:model", "GET /v1/threads", "GET /api/v1/models", "GET /api/v1/agent/options", "GET /api/v1/share/config",
		"GET /api/v1/sessions", "POST /api/v1/sessions/create", "GET /api/v1/sessions/events/latest",
		"POST /api/v1/oneshot/query", "POST /api/v1/oneshot/query/stream",
		"GET /api/v1/runtime-settings", // of no session, or of one of the caller's
		"POST /login",                  // a cookie for the key of the call
		"GET /langgraph/assistants/:assistantId", "GET /langgraph/assistants/:assistantId/schemas", "GET /langgraph/assistants/:assistantId/graph",
		"POST /langgraph/assistants/search", "POST /langgraph/assistants/count", "POST /langgraph/threads", "POST /langgraph/threads/search",
		"POST /langgraph/runs", "POST /langgraph/runs/stream", "POST /langgraph/runs/wait", // each creates a thread
		"GET /ws",    // its messages name sessions: TestSocketOwnership
		"GET /v1/ws", // its messages name requests and threads: TestNativeSocketOwnership
	}, r.String())
}

// TestEveryRouteLooksAtTheOwner aims every route of every protocol at what belongs to another one. What names nothing must not
// show it.
func TestEveryRouteLooksAtTheOwner(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys, everything(t))
	alice, _ := b.key("acme", "alice")
	bob, _ := b.key("acme", "bob")
	carol, _ := b.key("globex", "alice")
	made := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+alice)
	to := target{"demo", made.header.Get("X-Request-Id"), made.header.Get("X-Thread-Id")}
	walked := map[string]int{}
	for _, r := range b.routes() {
		if r.keyless() {
			continue
		}
		walked[r.owner.Name()]++
		if r.namesNothing() {
			b.showsNothingOf(r, to, bob, carol)
			continue
		}
		body := ""
		if r.takesBody() {
			body = r.body(to.threadID)
		}
		for who, test := range map[string]struct {
			key    string
			status int
			code   apierr.Code
		}{
			"another owner":  {bob, http.StatusForbidden, apierr.ThreadAccessDenied},
			"another tenant": {carol, http.StatusNotFound, "_not_found"},
		} {
			if strings.Contains(r.path, ":taskId") { // A2A does not show that a task of another user exists
				test.status, test.code = http.StatusNotFound, "_not_found"
			}
			if r.isRPC() {
				test.status = http.StatusOK
			}
			creates := []string{
				"POST /agui/:agentName", "POST /openai/v1/chat/completions", "POST /openai/v1/responses", "POST /ai-sdk/:agentName",
				"POST /a2a/:agentName", "POST /a2a/:agentName/:operation",
			}
			if slices.Contains(creates, r.String()) && test.key == carol {
				continue // it creates a thread of that tenant under the id
			}
			a := b.do(b.request(r.method, r.with(to, "q=x"), body, "Authorization", "Bearer "+test.key))
			if strings.HasPrefix(r.path, "/ai-sdk/") && test.key == carol && a.status == http.StatusNoContent {
				continue // no request runs on a chat that does not exist
			}
			if a.status != test.status {
				t.Errorf("%s by %s: got %d %s, want %d", r, who, a.status, a.body, test.status)
				continue
			}
			if r.isRPC() && strings.Contains(a.body, `"reason":"THREAD_ACCESS_DENIED"`) {
				continue
			}
			r.refusal(t, a, test.code)
		}
	}
	for _, p := range b.gateway.Protocols() {
		if len(p.Routes()) > 0 && walked[p.Name()] < min(3, len(p.Routes())) { // a protocol on the broker alone has none
			t.Errorf("%s: walked %d routes, want all of them", p.Name(), walked[p.Name()])
		}
	}
}

// showsNothingOf calls a route with the keys of others, and looks for what belongs to the owner of the target.
func (b *bench) showsNothingOf(r route, to target, keys ...string) {
	b.t.Helper()
	if r.method != http.MethodGet || r.spec.BearerSubprotocol {
		return
	}
	for _, key := range keys {
		a := b.get(r.with(to, ""), "Authorization", "Bearer "+key)
		if strings.Contains(a.body, to.requestID) || strings.Contains(a.body, to.threadID) {
			b.t.Errorf("%s: got %d %.300s, which is of another owner", r, a.status, a.body)
		}
	}
}

// TestManyWrongKeysAtOnce lets many clients guess while a client with a key works.
func TestManyWrongKeysAtOnce(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	key, _ := b.key("acme", "alice")
	b.redis.Close() // each process counts for itself then
	var guessers sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 8 {
		guessers.Go(func() {
			for range 100 {
				a := b.get("/v1/agents", "Authorization", "Bearer ak_a_b")
				mu.Lock()
				statuses[a.status]++
				mu.Unlock()
			}
		})
	}
	for range 20 {
		if a := b.get("/v1/agents", "Authorization", "Bearer "+key); a.status != http.StatusOK {
			t.Errorf("a valid key among wrong ones: got %d %s", a.status, a.body)
		}
	}
	guessers.Wait()
	if statuses[http.StatusTooManyRequests] < 600 || statuses[http.StatusUnauthorized]+statuses[http.StatusTooManyRequests] != 800 {
		t.Errorf("wrong keys got %v, want most of them 429", statuses)
	}
}
