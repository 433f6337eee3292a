package bus

import (
	"context"
	"time"
)

// KeyRecord is an API key at rest: the secret itself is nowhere.
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

func keyShelf() shelf { return shelf{kind: "KEYS", live: "key", what: "key"} }

// PutKey writes a key's record; every gateway learns of it at once.
func (b *Bus) PutKey(ctx context.Context, k KeyRecord) error {
	return place(ctx, b, keyShelf(), k.ID, k)
}

// Key returns the record of a key, or ErrNotFound.
func (b *Bus) Key(ctx context.Context, keyID string) (KeyRecord, error) {
	return pick[KeyRecord](ctx, b, keyShelf(), keyID)
}

// Keys returns the records of all keys.
func (b *Bus) Keys(ctx context.Context) ([]KeyRecord, error) {
	var all []KeyRecord
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := b.WatchKeys(ctx, func(k KeyRecord) { all = append(all, k) }, cancel)
	return all, err
}

// WatchKeys calls changed with every key's record, then ready, then changed for every change, until ctx is done. All
// calls come from this goroutine. A watcher that dies leaves nothing on the broker.
func (b *Bus) WatchKeys(ctx context.Context, changed func(KeyRecord), ready func()) error {
	return watchShelf(ctx, b, keyShelf(), changed, ready)
}
