// Package kv stores records by name in buckets that every process of a service follows: API keys, toolsets and remote
// agents.
package kv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
)

// Bucket is a key-value bucket of which only the newest record of each name counts. JetStream republishes what is stored, so
// a watcher needs no consumer on the broker. It is safe for concurrent use.
type Bucket[T any] struct {
	conn *broker.Conn
	kind string // in capitals, the end of the bucket's name
	live string // the token that follows live in the subjects of changes
	what string // a record is, in errors

	mu     sync.Mutex
	opened jetstream.KeyValue
}

// Name returns the name of the bucket.
func (b *Bucket[T]) Name() string { return b.conn.StreamName(b.kind) }

// republished names the subjects of records, and the subjects on which changes are republished.
func (b *Bucket[T]) republished() *jetstream.RePublish {
	return &jetstream.RePublish{
		Source: "$KV." + b.Name() + ".>", Destination: b.conn.Prefix + "." + broker.KindLive + "." + b.live + ".>",
	}
}

// Storage says how a bucket is created.
type Storage struct {
	Memory   bool
	Replicas int
	MaxAge   time.Duration // of records; 0 = they are kept
}

// Provision creates the bucket, or changes it to what this build needs.
func (b *Bucket[T]) Provision(ctx context.Context, s Storage) error {
	c := jetstream.KeyValueConfig{
		Bucket: b.Name(), Storage: jetstream.FileStorage, Replicas: s.Replicas, TTL: s.MaxAge, RePublish: b.republished(),
	}
	if s.Memory {
		c.Storage = jetstream.MemoryStorage
	}
	if _, err := b.conn.JetStream.CreateOrUpdateKeyValue(ctx, c); err != nil {
		return fmt.Errorf("provision bucket %s: %w", c.Bucket, err)
	}
	return nil
}

// Open opens the bucket and checks its configuration. The other methods need it.
func (b *Bucket[T]) Open(ctx context.Context) error {
	name := b.Name()
	opened, err := b.conn.JetStream.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return fmt.Errorf("bucket %s does not exist: create it, or start one service with NATS_PROVISION=create", name)
	}
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", name, err)
	}
	// Only the configuration of the bucket's stream contains what is republished.
	stream, err := b.conn.StreamInfo(ctx, "KV_"+name)
	if err != nil {
		return err
	}
	if want, have := b.republished(), stream.Config.RePublish; have == nil || *have != *want {
		return fmt.Errorf("bucket %s: republish must be %s -> %s: start one service with NATS_PROVISION=create",
			name, want.Source, want.Destination)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened = opened
	return nil
}

// bucket returns the opened bucket. It refuses a name that is not a token.
func (b *Bucket[T]) bucket(name string) (jetstream.KeyValue, error) {
	if err := broker.CheckToken(name); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened == nil {
		return nil, errors.New("the bus is not provisioned or verified yet")
	}
	return b.opened, nil
}

// put writes the record of a name, of which JetStream informs all watchers.
func (b *Bucket[T]) put(ctx context.Context, name string, value T) error {
	bucket, err := b.bucket(name)
	if err != nil {
		return err
	}
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", b.what, name, err)
	}
	if _, err := bucket.Put(ctx, name, body); err != nil {
		return fmt.Errorf("write %s %s: %w", b.what, name, err)
	}
	return nil
}

// get returns the record of a name, or record.ErrNotFound.
func (b *Bucket[T]) get(ctx context.Context, name string) (value T, err error) {
	bucket, err := b.bucket(name)
	if err != nil {
		return value, err
	}
	entry, err := bucket.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return value, broker.ErrNotFound
	}
	if err != nil {
		return value, fmt.Errorf("read %s %s: %w", b.what, name, err)
	}
	if err := json.Unmarshal(entry.Value(), &value); err != nil {
		return value, fmt.Errorf("decode %s %s: %w", b.what, name, err)
	}
	return value, nil
}

// idleCheck is how long a watch waits for a change before it reads storage for a change whose message was lost.
const idleCheck = 30 * time.Second

// watch calls changed with every record, then ready, then changed for every change, until ctx is done. All calls come from
// this goroutine.
func (b *Bucket[T]) watch(ctx context.Context, changed func(T), ready func()) error {
	subjects := b.republished()
	records, err := b.conn.Tail(ctx, "KV_"+b.Name(), subjects.Source, subjects.Destination, 0)
	if err != nil {
		return fmt.Errorf("watch every %s: %w", b.what, err)
	}
	defer records.Close()
	wait := time.Duration(0) // until changed was called for every record that exists
	for {
		m, err := records.Next(ctx, wait)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, broker.ErrIdle) && wait == 0:
			ready()
			wait = idleCheck
		case errors.Is(err, broker.ErrIdle):
		case err != nil:
			return fmt.Errorf("watch every %s: %w", b.what, err)
		default:
			var value T
			if m.Decode(&value) == nil { // the marker of a deletion has no record
				changed(value)
			}
		}
	}
}
