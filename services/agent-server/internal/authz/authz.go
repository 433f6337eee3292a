// Package authz checks access to an agent-server: its valid keys, and the rate limit of each. Keys come from the
// operator, and from rotations over HTTP, which retire earlier keys after an overlap.
package authz

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/keyseal"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
)

const (
	// MinKey and MaxKey bound the length of a key in bytes.
	MinKey = 16
	MaxKey = 512
	// maxKeys is how many keys may be good at one time.
	maxKeys = 16

	defaultOverlap = 10 * time.Minute
	maxOverlap     = 30 * 24 * time.Hour
)

// Store keeps the keys of rotations.
type Store interface {
	Keys(ctx context.Context) ([]store.Key, error)
	PlainKeys(ctx context.Context) ([]store.Key, error)
	PutKeys(ctx context.Context, keys []store.Key) error
}

// owner is what the key for the hub is sealed for.
const owner = "hub"

// key is a key in memory.
type key struct {
	hash               string
	secret             string // "" = the key is known by its hash alone
	addedAt, expiresAt time.Time
}

// Keyring holds the good keys. It is safe for concurrent use.
type Keyring struct {
	store  Store
	secret []byte // hashes and seals what is stored
	vault  *keyseal.Vault

	mu   sync.RWMutex
	keys []key // the newest first
}

// Open returns the keys of the operator and of earlier rotations. The secret hashes and seals the keys that the store
// keeps: a copy of the store alone opens nothing.
func Open(ctx context.Context, s Store, secret []byte, operators []string) (*Keyring, error) {
	v, err := keyseal.New(secret, keyseal.AgentServerKey)
	if err != nil {
		return nil, err
	}
	k := &Keyring{store: s, secret: secret, vault: v}
	if err := k.hashPlain(ctx); err != nil {
		return nil, err
	}
	return k, k.Reload(ctx, operators)
}

// hashPlain replaces the keys that an earlier version stored in plain text.
func (k *Keyring) hashPlain(ctx context.Context) error {
	plain, err := k.store.PlainKeys(ctx)
	if err != nil || len(plain) == 0 {
		return err
	}
	keys := make([]store.Key, len(plain))
	for i, p := range plain {
		keys[i] = k.sealed(key{k.hash(p.Hash), p.Hash, p.AddedAt, p.ExpiresAt})
	}
	return k.store.PutKeys(ctx, keys)
}

// sealed is what the store keeps of a key: only the key that the agent shows to its hub can be read again.
func (k *Keyring) sealed(one key) store.Key {
	stored := store.Key{Hash: one.hash, AddedAt: one.addedAt, ExpiresAt: one.expiresAt}
	if one.secret != "" && one.expiresAt.IsZero() {
		stored.Sealed = k.vault.Seal(owner, one.secret)
	}
	return stored
}

func (k *Keyring) hash(secret string) string {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte(secret))
	return hex.EncodeToString(mac.Sum(nil))
}

// Reload takes the operator's keys in place of those that he gave before. One that a rotation has retired stays so.
func (k *Keyring) Reload(ctx context.Context, operators []string) error {
	stored, err := k.store.Keys(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	keys := make([]key, 0, len(stored)+len(operators))
	for _, s := range stored {
		one := key{hash: s.Hash, addedAt: s.AddedAt, expiresAt: s.ExpiresAt}
		if s.Sealed != "" {
			if one.secret, err = k.vault.Open(owner, s.Sealed); err != nil {
				return err
			}
		}
		known[s.Hash] = true
		keys = append(keys, one)
	}
	for _, secret := range operators {
		if err := Check(secret); err != nil {
			return err
		}
		if hash := k.hash(secret); !known[hash] {
			keys, known[hash] = append(keys, key{hash: hash, secret: secret}), true
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(good(keys, time.Now())) == 0 {
		return fmt.Errorf("no key is good: set AGENT_KEYS to one of at least %d characters, such as openssl rand -hex 32 makes", MinKey)
	}
	k.keys = keys
	return nil
}

// Check says what is wrong with a key.
func Check(secret string) error {
	if len(secret) < MinKey || len(secret) > MaxKey {
		return fmt.Errorf("a key has %d to %d characters, and this one has %d; make one with openssl rand -hex 32",
			MinKey, MaxKey, len(secret))
	}
	for i := range len(secret) {
		if secret[i] <= ' ' || secret[i] > '~' || secret[i] == ',' {
			return fmt.Errorf("a key has letters, digits and signs other than space and comma")
		}
	}
	return nil
}

func good(keys []key, now time.Time) []key {
	var valid []key
	for _, one := range keys {
		if one.expiresAt.IsZero() || now.Before(one.expiresAt) {
			valid = append(valid, one)
		}
	}
	return valid
}

// Good reports whether a key opens the door. It takes as long for a key that nearly does.
func (k *Keyring) Good(secret string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	hash, found := []byte(k.hash(secret)), 0
	for _, one := range good(k.keys, time.Now()) {
		found |= subtle.ConstantTimeCompare(hash, []byte(one.hash))
	}
	return found == 1
}

// Newest is the key with which the agent speaks to its hub.
func (k *Keyring) Newest() string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var expiring string
	for _, one := range good(k.keys, time.Now()) {
		if one.expiresAt.IsZero() && one.secret != "" {
			return one.secret
		}
		expiring = cmp.Or(expiring, one.secret)
	}
	return expiring
}

// Rotate makes another key good, and those before it for the overlap only.
func (k *Keyring) Rotate(ctx context.Context, r remoteagent.Rotation) (remoteagent.Rotated, error) {
	if err := Check(r.Key); err != nil {
		return remoteagent.Rotated{}, remoteagent.Refuse(http.StatusBadRequest, apierr.InvalidMessageFormat, "key: %v", err)
	}
	if r.OverlapSeconds < 0 || r.OverlapSeconds > int(maxOverlap/time.Second) {
		return remoteagent.Rotated{}, remoteagent.Refuse(http.StatusBadRequest, apierr.InvalidMessageFormat,
			"overlapSeconds is from 1 to %d", int(maxOverlap/time.Second))
	}
	overlap := time.Duration(r.OverlapSeconds) * time.Second
	if r.OverlapSeconds == 0 {
		overlap = defaultOverlap
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now().Truncate(time.Millisecond)
	valid := good(k.keys, now)
	if len(valid) >= maxKeys {
		return remoteagent.Rotated{}, remoteagent.Refuse(http.StatusConflict, apierr.InvalidMessageFormat,
			"%d keys are good already; wait until the overlap of the oldest is over", len(valid))
	}
	until := now.Add(overlap)
	keys := []key{{hash: k.hash(r.Key), secret: r.Key, addedAt: now}}
	stored := []store.Key{k.sealed(keys[0])}
	for _, one := range valid {
		if one.hash == keys[0].hash {
			continue
		}
		if one.expiresAt.IsZero() || one.expiresAt.After(until) {
			one.expiresAt = until
		}
		keys, stored = append(keys, one), append(stored, k.sealed(one))
	}
	if err := k.store.PutKeys(ctx, stored); err != nil {
		return remoteagent.Rotated{}, err
	}
	k.keys = keys
	return remoteagent.Rotated{OldKeysValidUntil: until.UTC()}, nil
}
