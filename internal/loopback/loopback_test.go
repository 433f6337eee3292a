package loopback_test

import (
	"context"
	"net"
	"testing"

	"github.com/agentbus/agentbus/internal/loopback"
)

func TestAddressesAreFreeAndDiffer(t *testing.T) {
	t.Parallel()
	var ports loopback.Ports
	seen := map[string]bool{}
	for range 20 {
		addr, err := ports.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if seen[addr] {
			t.Errorf("%s is returned twice", addr)
		}
		seen[addr] = true
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
		if err != nil {
			t.Errorf("%s is not free: %v", addr, err)
			continue
		}
		t.Cleanup(func() { _ = listener.Close() })
	}
}

func TestACancelledContextEndsTheSearch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if addr, err := new(loopback.Ports).Next(ctx); err == nil {
		t.Errorf("got %s, want an error", addr)
	}
}
