package kv

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
)

// KeyRecord is an API key as it is stored: the hash of the secret, not the secret.
type KeyRecord struct {
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant"`
	Subject   string    `json:"subject"`
	Scopes    []string  `json:"scopes,omitempty"`
	Hash      []byte    `json:"hash"` // HMAC-SHA-256 of the secret
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // zero = never
	Revoked   bool      `json:"revoked,omitzero"`
}

// KeyBucket stores API keys by their id.
type KeyBucket struct{ Bucket[KeyRecord] }

// NewKeyBucket returns the bucket of a connection.
func NewKeyBucket(conn *broker.Conn) *KeyBucket {
	return &KeyBucket{Bucket[KeyRecord]{conn: conn, kind: "KEYS", live: "key", what: "key"}}
}

// PutKey writes the record of a key, of which every gateway is informed.
func (b *KeyBucket) PutKey(ctx context.Context, k KeyRecord) error { return b.put(ctx, k.ID, k) }

// Key returns the record of a key, or record.ErrNotFound.
func (b *KeyBucket) Key(ctx context.Context, keyID string) (KeyRecord, error) {
	return b.get(ctx, keyID)
}

// Keys returns the records of all keys.
func (b *KeyBucket) Keys(ctx context.Context) ([]KeyRecord, error) {
	var all []KeyRecord
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := b.WatchKeys(ctx, func(k KeyRecord) { all = append(all, k) }, cancel)
	return all, err
}

// WatchKeys calls changed with the record of every key, then ready, then changed for every change, until ctx is done. All
// calls come from this goroutine.
func (b *KeyBucket) WatchKeys(ctx context.Context, changed func(KeyRecord), ready func()) error {
	return b.watch(ctx, changed, ready)
}
