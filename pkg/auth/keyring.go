package auth

import (
	"context"
	"crypto/hmac"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

// how says what to send, in every refusal.
const how = `send one header "Authorization: Bearer ak_<id>_<secret>"`

// Keyring holds the records that a gateway checks keys against. It is safe for concurrent use.
type Keyring struct {
	issuer *Issuer
	decoy  []byte // compared if the record is missing, so that an unknown id takes as long as a wrong secret
	mu     sync.RWMutex
	byID   map[string]Record
	loaded bool

	verifier TokenVerifier     // nil = there are only API keys
	tokens   map[string]Record // that were verified, by id
	purgeAt  int               // size of tokens at which the expired ones are removed
}

// TokenPrefix is the start of the id of a token of an identity provider. A key's id has another one.
const TokenPrefix = "jwt_"

// TokenVerifier checks tokens of identity providers.
type TokenVerifier interface {
	// Verify returns what a token says, as a record whose id has TokenPrefix and differs from those of other tokens. It
	// fails with apierr.AuthFailed or apierr.Unavailable.
	Verify(ctx context.Context, token string) (Record, error)
}

// NewKeyring returns an empty keyring for keys under the issuer's pepper. Until [Keyring.Loaded] it refuses every key
// as unavailable.
func NewKeyring(issuer *Issuer) *Keyring {
	return &Keyring{issuer: issuer, decoy: digest(issuer.pepper, newSecret()), byID: map[string]Record{}, tokens: map[string]Record{}, purgeAt: minPurge}
}

// minPurge is the smallest number of tokens at which expired tokens are removed.
const minPurge = 1024

// AcceptTokens makes [Keyring.VerifyBearer] accept the tokens of v. Call it before the first credential is verified.
func (k *Keyring) AcceptTokens(v TokenVerifier) { k.verifier = v }

// VerifyBearer returns who holds a credential at time now: an API key, or a token if the keyring accepts them. It fails as
// [Keyring.Verify] and [TokenVerifier] do.
func (k *Keyring) VerifyBearer(ctx context.Context, credential string, now time.Time) (Principal, error) {
	if k.verifier == nil || strings.Count(credential, ".") != 2 { // an API key has no dot, a token has two
		return k.Verify(credential, now)
	}
	r, err := k.verifier.Verify(ctx, credential)
	if err != nil {
		return Principal{}, err
	}
	if err := r.open(now); err != nil {
		return Principal{}, err
	}
	k.putToken(r, now)
	return r.principal(), nil
}

// putToken stores a token that was verified, for the streams and tickets that it opens. It removes what has expired whenever the
// number of tokens has doubled.
func (k *Keyring) putToken(r Record, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tokens[r.ID] = r
	if len(k.tokens) < k.purgeAt {
		return
	}
	maps.DeleteFunc(k.tokens, func(_ string, r Record) bool { return !r.Active(now) })
	k.purgeAt = max(minPurge, 2*len(k.tokens))
}

// find returns the record of a key or of a token. Call it with mu held.
func (k *Keyring) find(id string) (r Record, known bool) {
	if strings.HasPrefix(id, TokenPrefix) {
		r, known = k.tokens[id]
		return r, known
	}
	r, known = k.byID[id]
	return r, known
}

// Put adds a record or replaces the one with its ID.
func (k *Keyring) Put(r Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byID[r.ID] = r
}

// Loaded says that every record that exists has been put, so that an unknown key is a wrong one.
func (k *Keyring) Loaded() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loaded = true
}

// Ready reports whether Loaded was called.
func (k *Keyring) Ready() bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.loaded
}

// Verify returns who holds key at time now. Otherwise it fails with apierr.AuthFailed, or with apierr.Unavailable before
// the keys are loaded. How long it takes says nothing about what was wrong.
func (k *Keyring) Verify(key string, now time.Time) (Principal, error) {
	keyID, secret := split(key)
	k.mu.RLock()
	r, known := k.byID[keyID]
	loaded := k.loaded
	k.mu.RUnlock()
	want := k.decoy
	if known {
		want = r.Hash
	}
	same := hmac.Equal(digest(k.issuer.pepper, secret), want)
	if !loaded {
		return Principal{}, notLoaded()
	}
	if !known || !same {
		return Principal{}, apierr.New(apierr.AuthFailed, "the API key is not valid; %s", how)
	}
	if err := r.open(now); err != nil {
		return Principal{}, err
	}
	return r.principal(), nil
}

func notLoaded() error {
	return apierr.New(apierr.Unavailable, "the API keys are not loaded yet; try again in a second")
}

func (r Record) principal() Principal {
	p := Principal{Tenant: r.Tenant, Subject: r.Subject, KeyID: r.ID}
	for _, s := range r.Scopes {
		p.Scopes = append(p.Scopes, Scope(s))
	}
	return p
}

// Check says whether a key that Verify has taken still opens anything at time now. It fails as Verify would.
func (k *Keyring) Check(keyID string, now time.Time) error {
	k.mu.RLock()
	r, known := k.find(keyID)
	k.mu.RUnlock()
	if !known {
		return apierr.New(apierr.AuthFailed, "the API key %s is not known any more; %s", keyID, how)
	}
	return r.open(now)
}

// ExpiresAt returns when a key stops opening anything; the zero time when it does not, or is not known.
func (k *Keyring) ExpiresAt(keyID string) time.Time {
	k.mu.RLock()
	defer k.mu.RUnlock()
	r, _ := k.find(keyID)
	return r.ExpiresAt
}

func (r Record) open(now time.Time) error {
	switch {
	case r.Revoked:
		return apierr.New(apierr.AuthFailed, "the API key %s is revoked; %s that is active", r.ID, how)
	case !r.Active(now):
		return apierr.New(apierr.AuthFailed, "the API key %s has expired; %s that is active", r.ID, how)
	}
	return nil
}

// split takes "ak_<id>_<secret>" apart at its last '_'.
func split(key string) (keyID, secret string) {
	at := strings.LastIndexByte(key, '_')
	if at < 0 {
		return "", ""
	}
	return key[:at], key[at+1:]
}

// Bearer returns the key that a request carries: in the Authorization header or, without one, in X-Api-Key, as the clients of
// LangGraph send it. It fails with apierr.AuthFailed, saying what to send.
func Bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if key := h.Values("X-Api-Key"); len(values) == 0 && len(key) == 1 && key[0] != "" {
		return key[0], nil
	}
	if len(values) == 0 {
		return "", apierr.New(apierr.AuthFailed, "an API key is needed: %s", how)
	}
	if len(values) > 1 {
		return "", apierr.New(apierr.AuthFailed, "there are %d Authorization headers: %s", len(values), how)
	}
	scheme, key, _ := strings.Cut(values[0], " ")
	if key = strings.TrimSpace(key); !strings.EqualFold(scheme, "Bearer") || key == "" {
		return "", apierr.New(apierr.AuthFailed, "the Authorization header holds no bearer key: %s", how)
	}
	return key, nil
}
