package bus

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/record"
	nats "github.com/nats-io/nats-server/v2/server"
)

// onServer returns an unprovisioned bus on a server with so much storage for streams.
func onServer(t *testing.T, maxStore int64) *Bus {
	t.Helper()
	s, err := nats.NewServer(&nats.Options{
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: maxStore, Host: "127.0.0.1", Port: nats.RANDOM_PORT,
		NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	b, err := Connect(t.Context(), Options{URL: s.ClientURL(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestStreamsHaveALimitThatTheServerHasRoomFor(t *testing.T) {
	t.Parallel()
	b := onServer(t, 200<<20)
	for range 2 { // what exists keeps its limit
		if err := b.Provision(t.Context(), Storage{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{b.conn.EventsStream(), b.conn.ResultsStream(), "OBJ_" + b.conn.ObjectsBucket()} {
			info, err := b.streamInfo(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if info.Config.MaxBytes != 40<<20 {
				t.Errorf("%s may take %d bytes, want 40 MiB", name, info.Config.MaxBytes)
			}
		}
	}
	if err := b.Provision(t.Context(), Storage{MaxBytes: -1}); err != nil {
		t.Fatal(err)
	}
	if info, err := b.streamInfo(t.Context(), b.conn.EventsStream()); err != nil || info.Config.MaxBytes != -1 {
		t.Errorf("got %d bytes, %v, want no limit", info.Config.MaxBytes, err)
	}
}

// TestStreamLimitSurvivesProvisionerCrash provisions behind a process that has learnt how much room there is, and
// has got no further.
func TestStreamLimitSurvivesProvisionerCrash(t *testing.T) {
	t.Parallel()
	b := onServer(t, 200<<20)
	if limit, err := b.firstMaxBytes(t.Context(), Storage{}); err != nil || limit != 40<<20 {
		t.Fatalf("got %d bytes, %v", limit, err)
	}
	if err := b.Provision(t.Context(), Storage{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{b.conn.EventsStream(), b.conn.ResultsStream(), "OBJ_" + b.conn.ObjectsBucket()} {
		info, err := b.streamInfo(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Config.MaxBytes != 40<<20 || info.Config.Metadata[metaProbe] != "" {
			t.Errorf("%s may take %d bytes and has metadata %v, want 40 MiB", name, info.Config.MaxBytes, info.Config.Metadata)
		}
	}
}

// TestAServerWithoutRoomIsFull fills a server whose streams have no limit of their own.
func TestAServerWithoutRoomIsFull(t *testing.T) {
	t.Parallel()
	b := onServer(t, 8<<20)
	if err := b.Provision(t.Context(), Storage{MaxBytes: -1}); err != nil {
		t.Fatal(err)
	}
	put := func(name string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, _, err := b.Accept(ctx, record.Accepted{Tenant: "t", RequestID: name, BodyHash: strings.Repeat("x", 500_000)})
		return err
	}
	for i := 0; put(fmt.Sprint("r", i)) == nil; i++ {
		if i > 100 {
			t.Fatal("the server takes everything")
		}
	}
	if full, err := b.Fullness(t.Context()); err != nil || full != 1 {
		t.Errorf("got %v, %v, want 1", full, err)
	}
	stream, err := b.conn.JetStream.Stream(t.Context(), b.conn.EventsStream())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for full, err := b.Fullness(t.Context()); err != nil || full > .5; full, err = b.Fullness(t.Context()) {
		if time.Now().After(deadline) {
			t.Fatalf("still %v full, %v", full, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	for err := put("again"); err != nil; err = put("again") {
		if time.Now().After(deadline) {
			t.Fatalf("there is room again: %v", err)
		}
	}
}
