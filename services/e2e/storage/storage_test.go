package storage

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/pgtest"
)

const most = 20_000

// large is a request that stores more than most alone.
func large() string {
	return `{"messages":[{"role":"user","content":"` + strings.Repeat("x", most) + `"}]}`
}

// The shapes of refusals.
const (
	native = `"event":"error"`
	tarko  = `{"error":"limit `
)

// full waits until a principal is refused.
func (b *bench) full(key string) {
	b.t.Helper()
	b.eventually("what is stored is at its limit", func() bool {
		return b.post(key, requests, hello).status == http.StatusTooManyRequests
	})
}

// refusesAll tries every route that stores something.
func (b *bench) refusesAll(key, limit, running, session string) {
	b.t.Helper()
	steer := `{"messages":[{"role":"user","content":"stop"}]}`
	query := `{"query":"hi","sessionId":"` + session + `"}`
	for _, route := range []struct{ path, body, shape string }{
		{requests, hello, native},
		{"/v1/agents/demo/stream", hello, native},
		{"/v1/requests/" + running + "/steer", steer, native},
		{"/v1/requests/" + running + "/follow-up", hello, native},
		{"/api/v1/sessions/query", query, tarko},
		{"/api/v1/sessions/query/stream", query, tarko},
		{"/api/v1/sessions/create", `{}`, tarko},
		{"/api/v1/sessions/update", `{"sessionId":"` + session + `","metadata":{"a":1}}`, tarko},
		{"/api/v1/runtime-settings", `{"sessionId":"` + session + `","runtimeSettings":{"a":1}}`, tarko},
		{"/api/v1/oneshot/query", `{"query":"hi"}`, tarko},
		{"/api/v1/oneshot/query/stream", `{"query":"hi"}`, tarko},
	} {
		b.refuses(route.path, limit, route.shape, b.post(key, route.path, route.body))
	}
	told := b.says(key, `{"type":"send_query","sessionId":"`+session+`","query":"hi"}`)
	for _, want := range []string{`"type":"error"`, "limit " + limit + ": ", "rate_limit_exceeded", `"retryAfterMs":60000`} {
		if !strings.Contains(told, want) {
			b.t.Errorf("WebSocket: got %s, want %s in it", told, want)
		}
	}
}

func (b *bench) session(key string) string {
	b.t.Helper()
	_, after, _ := strings.Cut(b.post(key, "/api/v1/sessions/create", `{}`).body, `"sessionId":"`)
	id, _, ok := strings.Cut(after, `"`)
	if !ok {
		b.t.Fatal("no session was created")
	}
	return id
}

func TestATenantStoresSoManyBytes(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"SQLite":     func(*testing.T) string { return "" },
		"PostgreSQL": func(t *testing.T) string { return pgtest.New(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := config.Quotas{TenantBytes: most}
			b := start(t, limits)
			if url := database(t); url != "" {
				b.database = url
			}
			b.startHistory()
			other := b.startGateway(limits)
			alice, bob, carol := b.key("acme", "alice", other), b.key("acme", "bob", other), b.key("globex", "carol", other)
			running, _ := b.taken(bob, hello)
			session := b.session(bob)
			keyed := []string{"Idempotency-Key", "0190163d-8694-739b-aea5-966c26f8ad91"}
			first, thread := b.taken(alice, large(), keyed...)
			b.full(alice)

			b.full(bob)
			b.refusesAll(bob, "tenantBytes", running, session)
			b.eventually("another gateway refuses too", func() bool {
				return b.call(other, bob, http.MethodPost, requests, hello).status == http.StatusTooManyRequests
			})
			b.taken(carol, hello)
			// A retry of what was accepted stores nothing.
			if again, _ := b.taken(alice, large(), keyed...); again != first {
				t.Errorf("a retry with the key of request %s is request %s", first, again)
			}

			if a := b.call(b.gateway, alice, http.MethodGet, "/v1/threads/"+thread, ""); a.status != http.StatusOK {
				t.Errorf("read a thread: got %d %s", a.status, a.body)
			}
			if a := b.post(bob, "/v1/requests/"+running+"/abort", ""); a.status != http.StatusAccepted {
				t.Errorf("abort a request: got %d %s", a.status, a.body)
			}
			b.ends("acme", first, thread)
			if a := b.call(b.gateway, alice, http.MethodDelete, "/v1/threads/"+thread, ""); a.status >= 300 {
				t.Errorf("delete a thread: got %d %s", a.status, a.body)
			}
			b.eventually("a deleted thread makes room", func() bool {
				return b.post(bob, requests, hello).status == http.StatusAccepted
			})
		})
	}
}

func TestAKeyStoresSoManyBytes(t *testing.T) {
	t.Parallel()
	b := start(t, config.Quotas{KeyBytes: most})
	b.startHistory()
	alice, rotated, bob := b.key("acme", "alice"), b.key("acme", "alice"), b.key("acme", "bob")
	running, _ := b.taken(alice, hello)
	session := b.session(alice)
	b.taken(alice, large())
	b.full(alice)
	b.refusesAll(alice, "keyBytes", running, session)
	b.refuses("another key of the same principal", "keyBytes", native, b.post(rotated, requests, hello))
	b.taken(bob, hello)
}

// TestStoredBytesWithoutHistory stops history: what is known of a tenant counts on, and what is not known is let in.
func TestStoredBytesWithoutHistory(t *testing.T) {
	t.Parallel()
	b := start(t, config.Quotas{TenantBytes: most})
	alice, carol := b.key("acme", "alice"), b.key("globex", "carol")
	b.taken(alice, large()) // there is no history yet
	stop := b.startHistory()
	b.eventually("the bytes are counted", func() bool {
		stored, err := historyapi.NewClient(b.bus).Stored(t.Context(), historyapi.StoredQuery{Tenant: "acme"})
		return err == nil && stored.Bytes >= most
	})
	b.full(alice)
	stop()
	time.Sleep(3 * time.Second) // longer than a count is used again
	b.refuses("without history", "tenantBytes", native, b.post(alice, requests, hello))
	b.taken(carol, hello)
}
