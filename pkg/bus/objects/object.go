package objects

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// replicaTimeout is how long an object that cannot be read is tried again.
	replicaTimeout = time.Second
	// objectFresh is how long an object counts as just stored, at most. One that is older is stored again, so that it lasts
	// as long as the event that names it now.
	objectFresh = time.Hour
	// freshShare is the part of the stream's age that this may be.
	freshShare = 50
)

// objectFreshness is how long an object counts as just stored: an hour, less where the stream keeps events for a short time.
func (b *Store) objectFreshness() time.Duration {
	if age := b.conn.MaxAge(); age > 0 {
		return min(objectFresh, age/freshShare)
	}
	return objectFresh
}

// RefOf returns the reference under which [Bus.PutObject] stores data.
func RefOf(data []byte) event.ObjectRef {
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	return event.ObjectRef{Object: hash, Size: int64(len(data)), SHA256: hash}
}

// PutObject stores a payload that is too large for an event of the thread. It is kept as long as the stream keeps events.
// The same data on the same thread is one object, however often it is stored.
func (b *Store) PutObject(ctx context.Context, tenant, threadID string, data []byte) (event.ObjectRef, error) {
	objects, err := b.objectStore()
	if err != nil {
		return event.ObjectRef{}, err
	}
	ref := RefOf(data)
	name, err := objectName(tenant, threadID, ref)
	if err != nil {
		return event.ObjectRef{}, err
	}
	info, err := objects.GetInfo(ctx, name)
	if err == nil && b.conn.Now().Sub(info.ModTime) < b.objectFreshness() {
		return ref, nil
	}
	if _, err := objects.Put(ctx, jetstream.ObjectMeta{Name: name}, bytes.NewReader(data)); err != nil {
		return event.ObjectRef{}, fmt.Errorf("store object of %d bytes: %w", len(data), err)
	}
	return ref, nil
}

// Object returns the payload of the thread that ref names, or ErrNotFound. A payload that is not the one that was stored
// is an error.
func (b *Store) Object(ctx context.Context, tenant, threadID string, ref event.ObjectRef) ([]byte, error) {
	objects, err := b.objectStore()
	if err != nil {
		return nil, err
	}
	name, err := objectName(tenant, threadID, ref)
	if err != nil {
		return nil, err
	}
	data, err := objects.GetBytes(ctx, name)
	// A reference is made after its object, so what is missing or incomplete may only lag on the replica that answers, or
	// just be stored anew.
	for begun := time.Now(); b.mayLag(err) && time.Since(begun) < replicaTimeout; {
		if err := broker.Pause(ctx, broker.ReplicaPause); err != nil {
			return nil, fmt.Errorf("read object %s: %w", name, err)
		}
		data, err = objects.GetBytes(ctx, name)
	}
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, broker.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", name, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != ref.SHA256 {
		return nil, fmt.Errorf("SHA-256 of object %s: %w", name, broker.ErrDamaged)
	}
	return data, nil
}

// mayLag reports whether an object that could not be read may soon be: on one server what is not there is not there.
func (b *Store) mayLag(err error) bool {
	return err != nil && (b.conn.Replicated() || !errors.Is(err, jetstream.ErrObjectNotFound))
}

// objectName returns a name with the tenant and the thread, so that a caller cannot name objects of threads that it may not
// read.
func objectName(tenant, threadID string, ref event.ObjectRef) (string, error) {
	for _, token := range []string{tenant, threadID, ref.Object} {
		if err := broker.CheckToken(token); err != nil {
			return "", err
		}
	}
	return tenant + "." + threadID + "." + ref.Object, nil
}

// Config is the storage of the objects.
type Config struct {
	Memory   bool
	Replicas int
	MaxAge   time.Duration // 0 = no limit
	MaxBytes int64         // -1 = no limit
}

// Provision creates the object store, or changes it to what this build needs.
func (b *Store) Provision(ctx context.Context, config Config) error {
	c := jetstream.ObjectStoreConfig{
		Bucket: b.conn.ObjectsBucket(), Storage: jetstream.FileStorage, Replicas: config.Replicas, TTL: config.MaxAge,
		MaxBytes: config.MaxBytes,
	}
	if config.Memory {
		c.Storage = jetstream.MemoryStorage
	}
	if _, err := b.conn.JetStream.CreateOrUpdateObjectStore(ctx, c); err != nil {
		return fmt.Errorf("provision object store %s: %w", c.Bucket, err)
	}
	return nil
}

// Open opens the object store. The other methods need it.
func (b *Store) Open(ctx context.Context) error {
	opened, err := b.conn.JetStream.ObjectStore(ctx, b.conn.ObjectsBucket())
	if err != nil {
		return fmt.Errorf("open object store %s: %w", b.conn.ObjectsBucket(), err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened = opened
	return nil
}

func (b *Store) objectStore() (jetstream.ObjectStore, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened == nil {
		return nil, errors.New("the bus is not provisioned or verified yet")
	}
	return b.opened, nil
}
