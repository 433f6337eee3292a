package bus

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/bus/kv"
	"github.com/nats-io/nats.go/jetstream"
)

// TestKeyWatcherHasNoConsumer: a process that is killed could not take one away.
func TestKeyWatcherHasNoConsumer(t *testing.T) {
	t.Parallel()
	b := open(t)
	if err := b.PutKey(t.Context(), kv.KeyRecord{ID: "k1"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		if err := b.WatchKeys(ctx, func(kv.KeyRecord) {}, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	defer watch.Wait()
	defer cancel()
	<-ready
	stream, err := b.conn.JetStream.Stream(t.Context(), "KV_"+b.KeyBucket.Name())
	if err != nil {
		t.Fatal(err)
	}
	if info := stream.CachedInfo(); info.State.Consumers != 0 {
		t.Errorf("the bucket of keys has %d consumers, want none", info.State.Consumers)
	}
}

func TestPurgedKeysAreNotReported(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, name := range []string{"k1", "k2"} {
		if err := b.PutKey(t.Context(), kv.KeyRecord{ID: name}); err != nil {
			t.Fatal(err)
		}
	}
	bucket, err := b.conn.JetStream.KeyValue(t.Context(), b.KeyBucket.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Delete(t.Context(), "k1"); err != nil {
		t.Fatal(err)
	}
	all, err := b.Keys(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != "k2" {
		t.Errorf("got keys %v (%v), want k2 alone", all, err)
	}
}

func TestKeyBucketWithoutRepublishIsRepaired(t *testing.T) {
	t.Parallel()
	b := open(t)
	old := jetstream.KeyValueConfig{Bucket: b.KeyBucket.Name(), Storage: jetstream.MemoryStorage}
	if _, err := b.conn.JetStream.UpdateKeyValue(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "republish must be $KV.AGENTBUS_KEYS.>") {
		t.Errorf("got %v, want an error with the cause", err)
	}
	if err := b.Provision(t.Context(), Storage{Memory: true}); err != nil {
		t.Errorf("got %v, want it mended", err)
	}
}
