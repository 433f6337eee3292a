package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
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

// PutKey writes a key's record; every gateway learns of it at once.
func (b *Bus) PutKey(ctx context.Context, k KeyRecord) error {
	keys, err := b.keyBucket(k.ID)
	if err != nil {
		return err
	}
	body, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", k.ID, err)
	}
	if _, err := keys.Put(ctx, k.ID, body); err != nil {
		return fmt.Errorf("write key %s: %w", k.ID, err)
	}
	return nil
}

// Key returns the record of a key, or ErrNotFound.
func (b *Bus) Key(ctx context.Context, keyID string) (KeyRecord, error) {
	keys, err := b.keyBucket(keyID)
	if err != nil {
		return KeyRecord{}, err
	}
	entry, err := keys.Get(ctx, keyID)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return KeyRecord{}, ErrNotFound
	}
	if err != nil {
		return KeyRecord{}, fmt.Errorf("read key %s: %w", keyID, err)
	}
	return decodeKey(entry)
}

func (b *Bus) keyBucket(keyID string) (jetstream.KeyValue, error) {
	if err := checkToken(keyID); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys == nil {
		return nil, errors.New("the bus is not provisioned or verified yet")
	}
	return b.keys, nil
}

// Keys returns the records of all keys.
func (b *Bus) Keys(ctx context.Context) ([]KeyRecord, error) {
	var all []KeyRecord
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := b.WatchKeys(ctx, func(k KeyRecord) { all = append(all, k) }, cancel)
	return all, err
}

// keysIdle is how long a watch waits for a change before it looks for one that it was not told of.
const keysIdle = 30 * time.Second

// WatchKeys calls changed with every key's record, then ready, then changed for every change, until ctx is done. All
// calls come from this goroutine. A watcher that dies leaves nothing on the broker.
func (b *Bus) WatchKeys(ctx context.Context, changed func(KeyRecord), ready func()) error {
	subject := b.keySubject()
	records, err := b.tail(ctx, "KV_"+b.keysBucket(), subject.Source, subject.Destination, 0)
	if err != nil {
		return fmt.Errorf("watch keys: %w", err)
	}
	defer records.close()
	wait := time.Duration(0) // for none, until every key that exists has been told
	for {
		m, err := records.next(ctx, wait)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrIdle) && wait == 0:
			ready()
			wait = keysIdle
		case errors.Is(err, ErrIdle):
		case err != nil:
			return fmt.Errorf("watch keys: %w", err)
		default:
			var k KeyRecord
			if m.decode(&k) == nil { // else somebody removed it by hand
				changed(k)
			}
		}
	}
}

// keySubject is where keys are stored, and where a change is republished.
func (b *Bus) keySubject() *jetstream.RePublish {
	return &jetstream.RePublish{Source: "$KV." + b.keysBucket() + ".>", Destination: b.prefix + "." + kindLive + ".key.>"}
}

func decodeKey(entry jetstream.KeyValueEntry) (KeyRecord, error) {
	var k KeyRecord
	if err := json.Unmarshal(entry.Value(), &k); err != nil {
		return k, fmt.Errorf("decode key %s: %w", entry.Key(), err)
	}
	return k, nil
}
