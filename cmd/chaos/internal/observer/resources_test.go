package observer

import (
	"regexp"
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestConsumersAreDistinguished queries a real server with a durable consumer, an ephemeral one, and one of the observer.
func TestConsumersAreDistinguished(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{
		JetStream: true, StoreDir: t.TempDir(), Host: "127.0.0.1", Port: server.RANDOM_PORT,
		HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	nc, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"e"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []jetstream.ConsumerConfig{{Durable: "history"}, {Name: "reader"}, {Name: ownConsumers + "1"}} {
		if _, err := stream.CreateConsumer(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	got, err := listConsumers(t.Context(), "nats-0", "http://"+ns.MonitorAddr().String())
	if err != nil || len(got) != 2 {
		t.Fatalf("got %q (%v), want two", got, err)
	}
	slices.Sort(got)
	for i, want := range []string{
		`^history of EVENTS on nats-0 \(durable, made at [0-9:]+\)$`,
		`^reader of EVENTS on nats-0 \(ephemeral, to "", dropped when idle for 5s, made at [0-9:]+\)$`,
	} {
		if !regexp.MustCompile(want).MatchString(got[i]) {
			t.Errorf("got %q, want %q", got[i], want)
		}
	}
}
