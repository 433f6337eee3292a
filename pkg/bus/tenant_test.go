package bus_test

import (
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The broker drops a message whose id it has seen on the same stream, whatever its subject. The ids of one tenant must not
// make it drop what another one writes.
func TestRequestsOfTwoTenantsWithOneIDAreTwoRequests(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for _, tenant := range []string{"acme", "globex"} {
		log := bus.LogID{Tenant: tenant, RequestID: "req_1"}
		w, _, err := b.Claim(t.Context(), log, "runner", "test")
		if err != nil {
			t.Fatalf("%s: %v", tenant, err)
		}
		if err := w.Emit(event.Aborted{Reason: tenant}); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Errorf("%s: %v", tenant, err)
		}
		w.Close()
		last := event.Event{}
		for f, err := range b.Read(t.Context(), log, 0) {
			if err != nil {
				t.Fatal(err)
			}
			events, err := f.Events()
			if err != nil {
				t.Fatal(err)
			}
			last = events[len(events)-1]
		}
		if got, _ := last.Body.(event.Aborted); got.Reason != tenant {
			t.Errorf("%s: the log ends with %+v", tenant, last.Body)
		}
	}
}

func TestQueuesKeepWhatTwoTenantsSendUnderOneID(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	b := server.Connect(t, "test")
	for _, tenant := range []string{"acme", "globex"} {
		a := record.Accepted{Tenant: tenant, RequestID: "req_1", ThreadID: "thr_1", AgentID: "demo", At: time.Now()}
		if err := b.Start(t.Context(), a, 0); err != nil {
			t.Fatal(err)
		}
		call := record.ToolCall{Tenant: tenant, RequestID: "req_1", ThreadID: "thr_1", AgentID: "demo", ToolCallID: "call_1", Tool: "echo"}
		if err := b.CallTool(t.Context(), "builtin", call); err != nil {
			t.Fatal(err)
		}
	}
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"AGENTBUS_REQUESTS", "AGENTBUS_TOOLS"} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().State.Msgs; n != 2 {
			t.Errorf("%s holds %d messages, want one of each tenant", name, n)
		}
	}
}
