package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/nats-io/nats.go/jetstream"
)

// replicaPatience is how long an object that cannot be read is tried again.
const replicaPatience = time.Second

// PutObject stores a payload that is too large for an event. It is kept as long as the stream keeps events.
func (b *Bus) PutObject(ctx context.Context, data []byte) (event.ObjectRef, error) {
	objects, err := b.objectStore()
	if err != nil {
		return event.ObjectRef{}, err
	}
	sum := sha256.Sum256(data)
	ref := event.ObjectRef{Object: id.New("obj"), Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	if _, err := objects.Put(ctx, jetstream.ObjectMeta{Name: ref.Object}, bytes.NewReader(data)); err != nil {
		return event.ObjectRef{}, fmt.Errorf("store object of %d bytes: %w", len(data), err)
	}
	return ref, nil
}

// Object returns the payload that ref names, or ErrNotFound. A payload that is not the one that was stored is an error.
func (b *Bus) Object(ctx context.Context, ref event.ObjectRef) ([]byte, error) {
	objects, err := b.objectStore()
	if err != nil {
		return nil, err
	}
	data, err := objects.GetBytes(ctx, ref.Object)
	// A reference is made after its object, so what is missing or incomplete may only lag on the replica that answers.
	for begun := time.Now(); err != nil && time.Since(begun) < replicaPatience; {
		if err := pause(ctx, replicaPause); err != nil {
			return nil, fmt.Errorf("read object %.64q: %w", ref.Object, err)
		}
		data, err = objects.GetBytes(ctx, ref.Object)
	}
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read object %.64q: %w", ref.Object, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != ref.SHA256 {
		return nil, fmt.Errorf("object %.64q is not what was stored: its SHA-256 differs", ref.Object)
	}
	return data, nil
}

func (b *Bus) objectStore() (jetstream.ObjectStore, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects == nil {
		return nil, errors.New("the bus is not provisioned or verified yet")
	}
	return b.objects, nil
}
