package oidc_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/auth/oidc"
	"github.com/agentbus/agentbus/pkg/auth/oidc/oidctest"
	"github.com/go-jose/go-jose/v4"
)

func verifier(p *oidctest.Provider, change func(*oidc.Provider)) *oidc.Verifier {
	configured := oidc.Provider{Issuer: p.URL, Audience: "agentbus", TenantClaim: "org", Scopes: []auth.Scope{auth.ScopeRead}}
	if change != nil {
		change(&configured)
	}
	return oidc.NewVerifier([]oidc.Provider{configured}, p.Client(), time.Now)
}

func TestClaimsBecomeAPrincipal(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	for name, test := range map[string]struct {
		change                 func(*oidc.Provider)
		claims                 map[string]any
		tenant, subject, scope string
	}{
		"defaults":             {nil, nil, "acme", "auth0|alice", "read"},
		"one tenant":           {func(o *oidc.Provider) { o.Tenant, o.TenantClaim = "all", "" }, nil, "all", "auth0|alice", "read"},
		"another subject":      {func(o *oidc.Provider) { o.SubjectClaim = "email" }, map[string]any{"email": "a@b.c"}, "acme", "a@b.c", "read"},
		"scopes as text":       {func(o *oidc.Provider) { o.ScopesClaim = "scope" }, map[string]any{"scope": "openid run read"}, "acme", "auth0|alice", "run read"},
		"scopes as list":       {func(o *oidc.Provider) { o.ScopesClaim = "scp" }, map[string]any{"scp": []string{"run", "run"}}, "acme", "auth0|alice", "run"},
		"scopes with a prefix": {func(o *oidc.Provider) { o.ScopesClaim, o.Prefix = "scope", "bus:" }, map[string]any{"scope": "bus:run read"}, "acme", "auth0|alice", "run"},
		"several audiences":    {nil, map[string]any{"aud": []string{"other", "agentbus"}}, "acme", "auth0|alice", "read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := verifier(p, test.change).Verify(t.Context(), p.Token(t, test.claims))
			if err != nil {
				t.Fatal(err)
			}
			if r.Tenant != test.tenant || r.Subject != test.subject || strings.Join(r.Scopes, " ") != test.scope {
				t.Errorf("got %s of %s with %v; want %s of %s with %s", r.Subject, r.Tenant, r.Scopes, test.subject, test.tenant, test.scope)
			}
			if !strings.HasPrefix(r.ID, auth.TokenPrefix) || r.ExpiresAt.IsZero() {
				t.Errorf("got id %q, expiry %s", r.ID, r.ExpiresAt)
			}
		})
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	p, other := oidctest.New(t), oidctest.New(t)
	unsigned := func() string {
		parts := strings.Split(p.Token(t, nil), ".")
		return "eyJhbGciOiJub25lIn0." + parts[1] + "."
	}
	foreign := oidctest.Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: other.Key.Load()}, p.Claims(nil))
	symmetric := oidctest.Sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat("k", 32))}, p.Claims(nil))
	for name, test := range map[string]struct{ token, want string }{
		"expired":              {p.Token(t, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), "has expired"},
		"not valid yet":        {p.Token(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "not valid yet"},
		"for another audience": {p.Token(t, map[string]any{"aud": "billing"}), "another audience"},
		"of another issuer":    {other.Token(t, nil), "issuer"},
		"with a foreign key":   {foreign, "signature"},
		"with a shared secret": {symmetric, "signature"},
		"without a signature":  {unsigned(), "signature"},
		"without a tenant":     {p.Token(t, map[string]any{"org": ""}), "tenant"},
		"a tenant as a list":   {p.Token(t, map[string]any{"org": []string{"acme"}}), "tenant"},
		"a tenant with a dot":  {p.Token(t, map[string]any{"org": "a.>"}), "tenant"},
		"without a subject":    {p.Token(t, map[string]any{"sub": ""}), "subject"},
		"too long":             {p.Token(t, map[string]any{"x": strings.Repeat("x", 20<<10)}), "bytes"},
		"garbage":              {"a.b.c", "issuer"},
		"empty parts":          {"..", "issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := verifier(p, nil).Verify(t.Context(), test.token)
			if apierr.CodeOf(err) != apierr.AuthFailed || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want a refusal that contains %q", err, test.want)
			}
		})
	}
	t.Run("without our scopes", func(t *testing.T) {
		t.Parallel()
		v := verifier(p, func(o *oidc.Provider) { o.ScopesClaim = "scope" })
		if _, err := v.Verify(t.Context(), p.Token(t, map[string]any{"scope": "openid"})); apierr.CodeOf(err) != apierr.AuthFailed {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}

func TestKeysAreRotated(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	v := verifier(p, nil)
	if _, err := v.Verify(t.Context(), p.Token(t, nil)); err != nil {
		t.Fatal(err)
	}
	old := p.Token(t, nil)
	p.Rotate(t, "two")
	if _, err := v.Verify(t.Context(), p.Token(t, nil)); err != nil {
		t.Errorf("a token with the new key: %v", err)
	}
	if _, err := v.Verify(t.Context(), old); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("a token with the old key: got %v, want a refusal", err)
	}
}

func TestAProviderThatIsDownIsUnavailable(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	p.Down.Store(true)
	v := verifier(p, nil)
	if _, err := v.Verify(t.Context(), p.Token(t, nil)); apierr.CodeOf(err) != apierr.Unavailable {
		t.Errorf("got %v, want unavailable", err)
	}
	p.Down.Store(false)
	known := verifier(p, nil)
	if _, err := known.Verify(t.Context(), p.Token(t, nil)); err != nil {
		t.Fatal(err)
	}
	p.Down.Store(true)
	if _, err := known.Verify(t.Context(), p.Token(t, nil)); err != nil {
		t.Errorf("with the keys that were read before: %v", err)
	}
	p.Rotate(t, "two")
	if _, err := known.Verify(t.Context(), p.Token(t, nil)); apierr.CodeOf(err) != apierr.Unavailable {
		t.Errorf("with a key that cannot be read: got %v, want unavailable", err)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjEifQ.")
	v := oidc.NewVerifier([]oidc.Provider{{Issuer: "http://127.0.0.1:1", Audience: "a", Tenant: "t"}}, http.DefaultClient, time.Now)
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := v.Verify(t.Context(), token); err == nil {
			t.Errorf("%q was accepted", token)
		}
	})
}
