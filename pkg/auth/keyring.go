package auth

import (
	"crypto/hmac"
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
}

// NewKeyring returns an empty keyring for keys under the issuer's pepper. Until [Keyring.Loaded] it refuses every key
// as unavailable.
func NewKeyring(issuer *Issuer) *Keyring {
	return &Keyring{issuer: issuer, decoy: digest(issuer.pepper, newSecret()), byID: map[string]Record{}}
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
	r, known := k.byID[keyID]
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
	return k.byID[keyID].ExpiresAt
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
