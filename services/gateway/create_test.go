package gateway_test

import (
	"log/slog"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
)

// Protocols whose clients choose the ids of threads set CreateThread; the native protocol does not.
func TestAThreadOfTheClientsChoiceIsCreatedIfAbsent(t *testing.T) {
	t.Parallel()
	b := start(t)
	store, err := rediscache.Open("redis://" + b.redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	history := historyapi.NewClient(b.bus)
	guard := authz.NewGuard(b.bus, history)
	acceptor := admission.New(b.bus, history, store, guard, slog.New(slog.DiscardHandler))
	accept := func(subject, threadID string, create bool) (admission.Receipt, error) {
		p := auth.Dev()
		p.Subject = subject
		return acceptor.Accept(t.Context(), admission.Call{
			Principal: p, AgentID: "demo", OnBusy: config.OnBusyQueue, Queue: 5, CreateThread: create,
			Request: event.AgentRequest{ThreadID: threadID, Messages: []event.InputMessage{event.UserText("hi")}},
		})
	}
	receipt, err := accept("ann", "deleted", true)
	if err != nil {
		t.Fatal(err)
	}
	b.run(receipt.RequestID, metadata(), done())
	if err := acceptor.Delete(t.Context(), auth.Dev().Tenant, b.record("deleted")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		does, subject, threadID string
		create                  bool
		want                    apierr.Code // "" = accepted
	}{
		{"an absent thread is not created unless the protocol asks for it", "ann", "client-1", false, apierr.ThreadNotFound},
		{"an absent thread is created", "ann", "client-1", true, ""},
		{"the next request continues it", "ann", "client-1", true, ""},
		{"any protocol continues it", "ann", "client-1", false, ""},
		{"another user may not use it", "bob", "client-1", true, apierr.ThreadAccessDenied},
		{"a deleted thread is not created again", "ann", "deleted", true, apierr.ThreadNotFound},
		{"ids of subagents' threads are reserved", "ann", "sub_1", true, apierr.ThreadNotFound},
		{"an id that is not one token is refused", "ann", "a.b", true, apierr.ThreadNotFound},
	}
	for _, test := range tests {
		_, err := accept(test.subject, test.threadID, test.create)
		if (err == nil) != (test.want == "") || err != nil && apierr.CodeOf(err) != test.want {
			t.Errorf("%s: got %v, want %q", test.does, err, test.want)
		}
	}
	if r := b.record("client-1"); r.Owner != "ann" || r.Index != 2 {
		t.Errorf("got the thread record %+v, want the third request of ann", r)
	}
}
