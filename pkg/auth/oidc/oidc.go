// Package oidc accepts the JSON Web Tokens of identity providers (OpenID Connect) in place of API keys.
package oidc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json"
)

// Provider is an identity provider whose tokens are accepted.
type Provider struct {
	Issuer   string // URL; the tokens have exactly this text in "iss", and discovery is below it
	Audience string // which tokens must have in "aud"

	// The tenant of its users: TenantClaim names the claim of a token that holds it, and Tenant is used without one.
	Tenant      string
	TenantClaim string
	// SubjectClaim names the claim that identifies a user within the tenant; "" = "sub".
	SubjectClaim string
	// ScopesClaim names a claim with scopes, a text with spaces or a list, of which Prefix is removed. Without it every user
	// has Scopes.
	ScopesClaim string
	Prefix      string
	Scopes      []auth.Scope
}

// maxToken is the longest token, in bytes: far more than providers write, and less than a server reads of headers.
const maxToken = 16 << 10

// RequestTime bounds a request to a provider.
const RequestTime = 10 * time.Second

// Verifier checks tokens. It reads the keys of a provider when its first token arrives, and again when a token is signed with
// a key that it does not have. It is safe for concurrent use.
type Verifier struct {
	providers map[string]*source
}

// NewVerifier returns a verifier that requests the keys of providers with client, and reads the time from now.
func NewVerifier(providers []Provider, client *http.Client, now func() time.Time) *Verifier {
	v := &Verifier{providers: map[string]*source{}}
	for _, p := range providers {
		v.providers[p.Issuer] = &source{provider: p, client: client, now: now}
	}
	return v
}

// Verify returns what a token says about its user, as the record of a key that expires with the token. It fails with
// apierr.AuthFailed, or with apierr.Unavailable if the provider cannot be asked for its keys.
func (v *Verifier) Verify(ctx context.Context, token string) (auth.Record, error) {
	if len(token) > maxToken {
		return auth.Record{}, apierr.New(apierr.AuthFailed, "the token has %d bytes, more than %d", len(token), maxToken)
	}
	s := v.providers[issuer(token)]
	if s == nil {
		return auth.Record{}, apierr.New(apierr.AuthFailed, "the token is of an issuer that this gateway does not accept")
	}
	verifier, err := s.verifier(ctx)
	if err != nil {
		return auth.Record{}, apierr.Wrap(err, apierr.Unavailable, "the identity provider does not respond; try again")
	}
	checked, err := verifier.Verify(oidc.ClientContext(ctx, s.client), token)
	if err != nil {
		return auth.Record{}, refusal(err)
	}
	var claims map[string]any
	if err := checked.Claims(&claims); err != nil {
		return auth.Record{}, apierr.Wrap(err, apierr.AuthFailed, "the claims of the token cannot be read")
	}
	return s.provider.record(token, claims, checked)
}

// refusal is the API error of a token that was refused. Its text does not repeat what the provider answered.
func refusal(err error) error {
	if expired, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		return apierr.Wrap(err, apierr.AuthFailed, "the token has expired at %s; get a new one", expired.Expiry.UTC().Format(time.RFC3339))
	}
	for part, reason := range map[string]string{
		"audience":       "it is for another audience",
		"before the nbf": "it is not valid yet",
	} {
		if strings.Contains(err.Error(), part) {
			return apierr.Wrap(err, apierr.AuthFailed, "the token is refused: %s", reason)
		}
	}
	if strings.Contains(err.Error(), "fetching keys") {
		return apierr.Wrap(err, apierr.Unavailable, "the keys of the identity provider cannot be read; try again")
	}
	return apierr.Wrap(err, apierr.AuthFailed, "the token is refused: its signature is not valid")
}

// issuer returns the claim "iss" of a token that is not checked yet; "" if it has none.
func issuer(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return ""
	}
	return claims.Issuer
}

// source is a provider with its keys, which are read once they are needed.
type source struct {
	provider Provider
	client   *http.Client
	now      func() time.Time

	mu    sync.Mutex
	ready *oidc.IDTokenVerifier // nil = discovery has not succeeded yet
	retry time.Time             // no discovery before
	err   error                 // of the last discovery
}

// discoveryPause is the time between two attempts to discover a provider, so that requests do not wait for one that is down.
const discoveryPause = 5 * time.Second

func (s *source) verifier(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready != nil {
		return s.ready, nil
	}
	if now := time.Now(); now.Before(s.retry) {
		return nil, s.err
	}
	// The keys are read with the context of the discovery, which must outlive this request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RequestTime)
	defer cancel()
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, s.client), s.provider.Issuer)
	if err != nil {
		s.err, s.retry = fmt.Errorf("discover %s: %w", s.provider.Issuer, err), time.Now().Add(discoveryPause)
		return nil, s.err
	}
	s.ready = found.VerifierContext(oidc.ClientContext(context.Background(), s.client), &oidc.Config{ //nolint:contextcheck // the keys are read again later
		ClientID: s.provider.Audience, Now: s.now,
	})
	return s.ready, nil
}

// record reads the tenant, the subject and the scopes from the claims of a token.
func (p Provider) record(token string, claims map[string]any, checked *oidc.IDToken) (auth.Record, error) {
	sum := sha256.Sum256([]byte(token))
	r := auth.Record{
		ID: auth.TokenPrefix + hex.EncodeToString(sum[:16]), Hash: sum[:],
		Tenant: p.Tenant, Subject: checked.Subject, CreatedAt: checked.IssuedAt, ExpiresAt: checked.Expiry,
	}
	if p.TenantClaim != "" {
		r.Tenant = text(claims[p.TenantClaim])
	}
	if claim := cmp.Or(p.SubjectClaim, "sub"); claim != "sub" {
		r.Subject = text(claims[claim])
	}
	scopes := p.Scopes
	if p.ScopesClaim != "" {
		scopes = p.scopes(claims[p.ScopesClaim])
		if len(scopes) == 0 {
			return auth.Record{}, apierr.New(apierr.AuthFailed, "the claim %q of the token holds no scope of agentbus", p.ScopesClaim)
		}
	}
	for _, s := range scopes {
		r.Scopes = append(r.Scopes, string(s))
	}
	if err := r.Check(); err != nil {
		return auth.Record{}, apierr.Wrap(err, apierr.AuthFailed, "the claims of the token cannot be used: %s", err)
	}
	return r, nil
}

// scopes returns those of our scopes that a claim holds; the others are for other services.
func (p Provider) scopes(claim any) []auth.Scope {
	var words []string
	switch v := claim.(type) {
	case string:
		words = strings.Fields(v)
	case []any:
		for _, one := range v {
			words = append(words, text(one))
		}
	}
	var all []auth.Scope
	for _, word := range words {
		name, ok := strings.CutPrefix(word, p.Prefix)
		if s := auth.Scope(name); ok && slices.Contains(auth.Scopes(), s) && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func text(claim any) string {
	s, _ := claim.(string)
	return s
}
