package dev

import (
	"context"
	"log/slog"
	"net/url"
	"testing"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/rediscache"
)

func TestEmbeddedServersRequireAPasswordWithAuth(t *testing.T) {
	t.Parallel()
	for _, auth := range []bool{false, true} {
		s := &stack{options: Options{Auth: auth, NATSAddr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}}
		t.Cleanup(s.close)
		if err := s.openServers(t.Context()); err != nil {
			t.Fatal(err)
		}
		for server, ask := range map[string]func(context.Context, string) error{
			s.servers.redisURL:   askRedis,
			s.servers.nats.URL(): askNATS,
		} {
			for with, want := range map[string]bool{server: true, withoutUser(t, server): !auth} {
				if err := ask(t.Context(), with); (err == nil) != want {
					t.Errorf("auth %v, %s: got %v, want an answer: %v", auth, with, err, want)
				}
			}
		}
	}
}

func withoutUser(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = nil
	return u.String()
}

func askRedis(ctx context.Context, address string) error {
	store, err := rediscache.Open(address)
	if err != nil {
		return err
	}
	err = store.Ping(ctx)
	_ = store.Close() // nothing was written
	return err
}

func askNATS(ctx context.Context, address string) error {
	b, err := bus.Connect(ctx, bus.Options{URL: address, Name: "test"})
	if err == nil {
		b.Close()
	}
	return err
}
