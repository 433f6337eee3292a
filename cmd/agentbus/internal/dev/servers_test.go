package dev

import (
	"log/slog"
	"net/url"
	"testing"

	"github.com/agentbus/agentbus/pkg/state"
)

func TestEmbeddedServersRequireAPasswordWithAuth(t *testing.T) {
	t.Parallel()
	for _, auth := range []bool{false, true} {
		s := &stack{options: Options{Auth: auth, NATSAddr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}}
		t.Cleanup(s.close)
		if err := s.openServers(t.Context()); err != nil {
			t.Fatal(err)
		}
		address, err := url.Parse(s.servers.redisURL)
		if err != nil {
			t.Fatal(err)
		}
		address.User = nil
		for with, want := range map[string]bool{s.servers.redisURL: true, address.String(): !auth} {
			store, err := state.Open(with)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Ping(t.Context()); (err == nil) != want {
				t.Errorf("auth %v, %s: got %v, want an answer: %v", auth, with, err, want)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
