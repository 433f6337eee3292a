package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
)

// shelf is a bucket of records that few write and every process of a service keeps in mind: the newest of each name
// counts. What is stored is republished, so that whoever watches leaves nothing on the broker when it dies.
type shelf struct {
	kind string // in capitals, the end of the bucket's name
	live string // the token behind live in what is republished
	what string // it holds, for errors
}

func shelves() []shelf { return []shelf{keyShelf(), toolsetShelf(), agentShelf()} }

func (b *Bus) bucketOf(s shelf) string { return b.streamName(s.kind) }

// republished is where the records of a shelf are stored, and where a change is republished.
func (b *Bus) republished(s shelf) *jetstream.RePublish {
	return &jetstream.RePublish{
		Source: "$KV." + b.bucketOf(s) + ".>", Destination: b.prefix + "." + kindLive + "." + s.live + ".>",
	}
}

func (b *Bus) provisionShelf(ctx context.Context, s shelf, storage jetstream.StorageType, replicas int) error {
	c := jetstream.KeyValueConfig{Bucket: b.bucketOf(s), Storage: storage, Replicas: replicas, RePublish: b.republished(s)}
	if _, err := b.js.CreateOrUpdateKeyValue(ctx, c); err != nil {
		return fmt.Errorf("provision bucket %s: %w", c.Bucket, err)
	}
	return nil
}

func (b *Bus) openShelf(ctx context.Context, s shelf) (jetstream.KeyValue, error) {
	name := b.bucketOf(s)
	bucket, err := b.js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("bucket %s does not exist: create it, or start one service with NATS_PROVISION=create", name)
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	// What the bucket republishes stands in its stream's configuration alone.
	stream, err := b.streamInfo(ctx, "KV_"+name)
	if err != nil {
		return nil, err
	}
	if want, have := b.republished(s), stream.Config.RePublish; have == nil || *have != *want {
		return nil, fmt.Errorf("bucket %s: republish must be %s -> %s: start one service with NATS_PROVISION=create",
			name, want.Source, want.Destination)
	}
	return bucket, nil
}

// bucket is the opened bucket of a shelf, for the record of that name.
func (b *Bus) bucket(s shelf, name string) (jetstream.KeyValue, error) {
	if err := checkToken(name); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	bucket, ok := b.buckets[s.kind]
	if !ok {
		return nil, errors.New("the bus is not provisioned or verified yet")
	}
	return bucket, nil
}

// place writes the record of that name; every watcher learns of it at once.
func place[T any](ctx context.Context, b *Bus, s shelf, name string, value T) error {
	bucket, err := b.bucket(s, name)
	if err != nil {
		return err
	}
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", s.what, name, err)
	}
	if _, err := bucket.Put(ctx, name, body); err != nil {
		return fmt.Errorf("write %s %s: %w", s.what, name, err)
	}
	return nil
}

// pick returns the record of that name, or ErrNotFound.
func pick[T any](ctx context.Context, b *Bus, s shelf, name string) (value T, err error) {
	bucket, err := b.bucket(s, name)
	if err != nil {
		return value, err
	}
	entry, err := bucket.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return value, ErrNotFound
	}
	if err != nil {
		return value, fmt.Errorf("read %s %s: %w", s.what, name, err)
	}
	if err := json.Unmarshal(entry.Value(), &value); err != nil {
		return value, fmt.Errorf("decode %s %s: %w", s.what, name, err)
	}
	return value, nil
}

// shelfIdle is how long a watch waits for a change before it looks for one that it was not told of.
const shelfIdle = 30 * time.Second

// watchShelf calls changed with every record, then ready, then changed for every change, until ctx is done. All calls
// come from this goroutine. A watcher that dies leaves nothing on the broker.
func watchShelf[T any](ctx context.Context, b *Bus, s shelf, changed func(T), ready func()) error {
	subject := b.republished(s)
	records, err := b.tail(ctx, "KV_"+b.bucketOf(s), subject.Source, subject.Destination, 0)
	if err != nil {
		return fmt.Errorf("watch every %s: %w", s.what, err)
	}
	defer records.close()
	wait := time.Duration(0) // for none, until every record that exists has been told
	for {
		m, err := records.next(ctx, wait)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrIdle) && wait == 0:
			ready()
			wait = shelfIdle
		case errors.Is(err, ErrIdle):
		case err != nil:
			return fmt.Errorf("watch every %s: %w", s.what, err)
		default:
			var value T
			if m.decode(&value) == nil { // else somebody removed it by hand
				changed(value)
			}
		}
	}
}
