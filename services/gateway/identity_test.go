package gateway_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/auth/oidc/oidctest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/services/gateway"
)

// withIdentity accepts the tokens of a provider, whose users have the scopes of their tokens.
func withIdentity(p *oidctest.Provider) func(*gateway.Deps) {
	return func(d *gateway.Deps) {
		d.AuthRequired = true
		d.Config.Gateway.Identity = []config.IdentityProvider{
			{Issuer: p.URL, Audience: "agentbus", TenantClaim: "org", ScopesClaim: "scope"},
		}
	}
}

func TestTokensOfAnIdentityProvider(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	b := start(t, withIdentity(p))
	token := func(claims map[string]any) string { return p.Token(t, claims) }
	alice := token(map[string]any{"scope": "read run"})
	made := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+alice)
	if made.status != http.StatusAccepted {
		t.Fatalf("got %d %s", made.status, made.body)
	}
	request := "/v1/requests/" + made.header.Get("X-Request-Id")
	for _, test := range []struct {
		name, method, path, token string
		status                    int
		want                      string
	}{
		{"the owner", http.MethodGet, request, alice, 200, ""},
		{"the owner with another token", http.MethodGet, request, token(map[string]any{"scope": "read", "jti": "2"}), 200, ""},
		{"another user", http.MethodGet, request, token(map[string]any{"scope": "read", "sub": "bob"}), 403, ""},
		{"another tenant", http.MethodGet, request, token(map[string]any{"scope": "read", "org": "other"}), 404, ""},
		{"a user who may only read", http.MethodPost, "/v1/agents/demo/requests", token(map[string]any{"scope": "read"}), 401, "scope"},
		{"a token that has expired", http.MethodGet, request, token(map[string]any{"scope": "read", "exp": time.Now().Add(-time.Minute).Unix()}), 401, "has expired"},
		{"a token for another service", http.MethodGet, request, token(map[string]any{"scope": "read", "aud": "billing"}), 401, "audience"},
		{"text with dots", http.MethodGet, request, "a.b.c", 401, "issuer"},
	} {
		a := b.do(b.request(test.method, test.path, hello, "Authorization", "Bearer "+test.token))
		if a.status != test.status || !strings.Contains(a.body, test.want) {
			t.Errorf("%s: got %d %s, want %d with %q", test.name, a.status, a.body, test.status, test.want)
		}
	}
	key, _ := b.key("acme", "auth0|alice")
	if a := b.get(request, "Authorization", "Bearer "+key); a.status != http.StatusOK {
		t.Errorf("an API key of the same principal: got %d %s", a.status, a.body)
	}
}

func TestAnExpiredTokenLosesItsStreams(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	b := start(t, withIdentity(p))
	long := p.Token(t, map[string]any{"scope": "run read", "org": "default"})
	made := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+long)
	requestID := made.header.Get("X-Request-Id")
	b.emit(b.claim(requestID), metadata())
	short := p.Token(t, map[string]any{"scope": "read", "org": "default", "exp": time.Now().Add(3 * time.Second).Unix()})
	resp, reader := b.open(b.request(http.MethodGet, "/v1/requests/"+requestID+"/stream", "", "Authorization", "Bearer "+short))
	if _, err := reader.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want a cut connection", err)
	}
}

func TestTheLimitsOfAUserCountAllTokens(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	b := start(t, withIdentity(p), func(d *gateway.Deps) {
		d.Config.Gateway.RateLimit = config.Rate{Requests: 2, Per: config.Duration(time.Hour), Burst: 2}
	})
	get := func(claims map[string]any) int {
		claims["scope"] = "read"
		return b.get("/v1/agents", "Authorization", "Bearer "+p.Token(t, claims)).status
	}
	for i, want := range []int{200, 200, 429} {
		if got := get(map[string]any{"jti": i}); got != want {
			t.Errorf("token %d: got %d, want %d", i, got, want)
		}
	}
	if got := get(map[string]any{"sub": "bob"}); got != 200 {
		t.Errorf("another user: got %d", got)
	}
}
