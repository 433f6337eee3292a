package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/auth"
)

// login returns the cookie that the gateway sets for a key.
func (b *bench) login(key string) *http.Cookie {
	b.t.Helper()
	a := b.post("/login", "", "Authorization", "Bearer "+key)
	cookies := (&http.Response{Header: a.header}).Cookies()
	if a.status != http.StatusOK || len(cookies) != 1 {
		b.t.Fatalf("got %d %s with %v, want a cookie", a.status, a.body, cookies)
	}
	return cookies[0]
}

func TestALoginSetsACookieThatThePageUsesInPlaceOfAKey(t *testing.T) {
	t.Parallel()
	b := start(t, withPage(t), withKeys)
	key, _ := b.key("acme", "alice")
	cookie := b.login(key)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.MaxAge != 12*60*60 || strings.Contains(key, cookie.Value) {
		t.Errorf("got %v, want a strict HttpOnly cookie of 12 h without the key", cookie)
	}
	own := b.server.URL
	sent := []string{"Cookie", cookie.Name + "=" + cookie.Value}
	path, threadID := b.kept("image/png", picture(t, 70<<10), "Authorization", "Bearer "+key)
	const create, list, native = "/api/v1/sessions/create", "/api/v1/models", "/v1/agents"
	for _, test := range []struct {
		name, method, path string
		headers            []string
		status             int
	}{
		{"a read of the page", http.MethodGet, list, nil, 200},
		{"a read of the page, as browsers mark it", http.MethodGet, list, []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"the state of a session", http.MethodGet, "/api/v1/sessions/status?sessionId=" + threadID, nil, 200},
		{"a picture", http.MethodGet, path, nil, 200},
		{"an effect of the page", http.MethodPost, create, []string{"Origin", own}, 201},
		{"an effect without an origin", http.MethodPost, create, nil, 401},
		{"an effect of another page", http.MethodPost, create, []string{"Origin", "http://evil.example.com"}, 403},
		{"a read of another page", http.MethodGet, list, []string{"Origin", "http://evil.example.com"}, 401},
		{"a read of another site", http.MethodGet, list, []string{"Sec-Fetch-Site", "cross-site"}, 401},
		{"a WebSocket without an origin", http.MethodGet, "/ws", []string{"Upgrade", "websocket"}, 401},
		{"a route of the native protocol", http.MethodGet, native, nil, 401},
		{"an effect of the native protocol", http.MethodPost, "/v1/agents/demo/requests", []string{"Origin", own}, 401},
		{"another login", http.MethodPost, "/login", []string{"Origin", own}, 401},
	} {
		a := b.do(b.request(test.method, test.path, "", append(sent, test.headers...)...))
		if a.status != test.status {
			t.Errorf("%s: got %d %.200s, want %d", test.name, a.status, a.body, test.status)
		}
	}
	if p, a := b.tryDial("", nil, append(sent, "Origin", own)...); p == nil {
		t.Errorf("a WebSocket of the page: got %+v", a)
	}
	foreign := b.do(b.request(http.MethodGet, list, "", "Cookie", cookie.Name+"="+key))
	if foreign.status != http.StatusUnauthorized {
		t.Errorf("the key in a cookie: got %d, want 401", foreign.status)
	}
}

func TestALoginEndsWithItsKey(t *testing.T) {
	t.Parallel()
	b := start(t, withPage(t), withKeys)
	key, r := b.key("acme", "alice", auth.ScopeRead)
	cookie := b.login(key)
	get := func() int {
		return b.get("/api/v1/models", "Cookie", cookie.Name+"="+cookie.Value).status
	}
	if got := get(); got != http.StatusOK {
		t.Fatalf("got %d", got)
	}
	if a := b.do(b.request(http.MethodPost, "/api/v1/sessions/create", "", "Cookie", cookie.Name+"="+cookie.Value, "Origin", b.server.URL)); a.status != http.StatusUnauthorized {
		t.Errorf("a scope that the key lacks: got %d %s, want 401", a.status, a.body)
	}
	r.Revoked = true
	if err := b.bus.PutKey(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	b.eventually("the login ends", func() bool { return get() == http.StatusUnauthorized })
	out := b.post("/logout", "")
	if cookies := (&http.Response{Header: out.header}).Cookies(); len(cookies) != 1 || cookies[0].MaxAge >= 0 {
		t.Errorf("a logout sets %v, want a cookie that has expired", cookies)
	}
}

func TestTheLoginPageMayRunItsOwnScriptOnly(t *testing.T) {
	t.Parallel()
	b := start(t, withPage(t), withKeys)
	a := b.get("/login")
	if policy := a.header.Get("Content-Security-Policy"); a.status != http.StatusOK || !strings.Contains(policy, "script-src 'sha256-") ||
		!strings.Contains(policy, "default-src 'none'") || !strings.Contains(a.body, "API key") {
		t.Errorf("got %d %q", a.status, policy)
	}
	if a := start(t, withKeys).get("/login"); a.status != http.StatusNotFound {
		t.Errorf("without a page: got %d, want 404", a.status)
	}
}
