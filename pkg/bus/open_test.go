package bus

import (
	"testing"

	"github.com/agentbus/agentbus/pkg/bus/embedded"
)

// open returns a bus on a server of its own.
func open(t *testing.T) *Bus {
	t.Helper()
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	b, err := Connect(t.Context(), Options{InProcess: server, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Provision(t.Context(), Storage{Memory: true}); err != nil {
		t.Fatal(err)
	}
	return b
}
