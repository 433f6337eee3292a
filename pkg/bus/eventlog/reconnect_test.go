package eventlog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/bus/relaytest"
	"github.com/agentbus/agentbus/pkg/record"
)

func TestAfterAReconnectFollowersLookAtOnce(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	relay := relaytest.New(t, strings.TrimPrefix(server.URL(), "nats://"))
	near, far := server.Connect(t, "near"), connect(t, "nats://"+relay.Addr().String())
	log := record.LogID{Tenant: "t", RequestID: "r"}
	f, err := far.Follow(t.Context(), log, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WaitForMessages()
	relay.SetCut(true)
	for far.Ready(t.Context()) == nil {
		time.Sleep(time.Millisecond)
	}
	w, _, err := near.Claim(t.Context(), log, "runner", "")
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	relay.SetCut(false)
	if frame, err := f.Next(t.Context(), 5*time.Second); err != nil || frame.First != 0 {
		t.Errorf("got frame from %d, %v", frame.First, err)
	}
}

func connect(t *testing.T, url string) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Options{URL: url, Name: "far"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}
