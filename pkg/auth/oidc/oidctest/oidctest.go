// Package oidctest is an identity provider for tests: discovery, keys and tokens, over HTTP.
package oidctest

import (
	"crypto/rand"
	"crypto/rsa"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// Provider is an identity provider with discovery and keys. It is safe for concurrent use.
type Provider struct {
	*httptest.Server
	// Key signs the tokens.
	Key  atomic.Pointer[jose.JSONWebKey]
	Down atomic.Bool // answers nothing
}

// New starts a provider, which ends with the test.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{}
	p.Rotate(t, "one")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.write(t, w, map[string]any{
			"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL, "token_endpoint": p.URL,
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.write(t, w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.Key.Load().Public()}})
	})
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.Down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *Provider) write(t testing.TB, w http.ResponseWriter, value any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	if err := json.MarshalWrite(w, value); err != nil {
		t.Error(err)
	}
}

// Rotate replaces the key of the provider.
func (p *Provider) Rotate(t testing.TB, id string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.Key.Store(&jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(jose.RS256), Use: "sig"})
}

// Claims are those of a valid token, changed by more.
func (p *Provider) Claims(more map[string]any) map[string]any {
	all := map[string]any{
		"iss": p.URL, "aud": "agentbus", "sub": "auth0|alice", "org": "acme",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(all, more)
	return all
}

// Token returns a valid token whose claims are changed by more.
func (p *Provider) Token(t testing.TB, more map[string]any) string {
	t.Helper()
	return Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: p.Key.Load()}, p.Claims(more))
}

// Sign returns a token.
func Sign(t testing.TB, key jose.SigningKey, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
