// Package access knows who may speak to an agent-server: which keys are good, and how often each may ask. Keys come from
// the operator, and from rotations over the wire, which retire those before them after an overlap.
package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/spoke"
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
	PutKeys(ctx context.Context, keys []store.Key) error
}

// Keyring holds the good keys. It is safe for concurrent use.
type Keyring struct {
	store Store

	mu   sync.RWMutex
	keys []store.Key // the newest first
}

// Open returns the keys of the operator and of earlier rotations.
func Open(ctx context.Context, s Store, operators []string) (*Keyring, error) {
	k := &Keyring{store: s}
	return k, k.Reload(ctx, operators)
}

// Reload takes the operator's keys in place of those that he gave before. One that a rotation has retired stays so.
func (k *Keyring) Reload(ctx context.Context, operators []string) error {
	stored, err := k.store.Keys(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, key := range stored {
		known[key.Secret] = true
	}
	keys := stored
	for _, secret := range operators {
		if err := Check(secret); err != nil {
			return err
		}
		if !known[secret] {
			keys, known[secret] = append(keys, store.Key{Secret: secret}), true
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

func good(keys []store.Key, now time.Time) []store.Key {
	var valid []store.Key
	for _, key := range keys {
		if key.ExpiresAt.IsZero() || now.Before(key.ExpiresAt) {
			valid = append(valid, key)
		}
	}
	return valid
}

// Good reports whether a key opens the door. It takes as long for a key that nearly does.
func (k *Keyring) Good(secret string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	hash, found := sha256.Sum256([]byte(secret)), 0
	for _, key := range good(k.keys, time.Now()) {
		other := sha256.Sum256([]byte(key.Secret))
		found |= subtle.ConstantTimeCompare(hash[:], other[:])
	}
	return found == 1
}

// Newest is the key with which the agent speaks to its hub.
func (k *Keyring) Newest() string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, key := range good(k.keys, time.Now()) {
		if key.ExpiresAt.IsZero() {
			return key.Secret
		}
	}
	for _, key := range good(k.keys, time.Now()) {
		return key.Secret
	}
	return ""
}

// Rotate makes another key good, and those before it for the overlap only.
func (k *Keyring) Rotate(ctx context.Context, r spoke.Rotation) (spoke.Rotated, error) {
	if err := Check(r.Key); err != nil {
		return spoke.Rotated{}, spoke.Refuse(http.StatusBadRequest, fault.InvalidMessageFormat, "key: %v", err)
	}
	if r.OverlapSeconds < 0 || r.OverlapSeconds > int(maxOverlap/time.Second) {
		return spoke.Rotated{}, spoke.Refuse(http.StatusBadRequest, fault.InvalidMessageFormat,
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
		return spoke.Rotated{}, spoke.Refuse(http.StatusConflict, fault.InvalidMessageFormat,
			"%d keys are good already; wait until the overlap of the oldest is over", len(valid))
	}
	until := now.Add(overlap)
	keys := []store.Key{{Secret: r.Key, AddedAt: now}}
	for _, key := range valid {
		if key.Secret == r.Key {
			continue
		}
		if key.ExpiresAt.IsZero() || key.ExpiresAt.After(until) {
			key.ExpiresAt = until
		}
		keys = append(keys, key)
	}
	if err := k.store.PutKeys(ctx, keys); err != nil {
		return spoke.Rotated{}, err
	}
	k.keys = keys
	return spoke.Rotated{OldKeysValidUntil: until.UTC()}, nil
}
