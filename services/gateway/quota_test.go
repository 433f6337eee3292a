package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway"
)

const requests = "/v1/agents/demo/requests"

// overQuota checks a refusal in the native shape.
func (b *bench) overQuota(limit string, a answer) {
	b.t.Helper()
	if a.status != http.StatusTooManyRequests || a.failure(b.t).Code != apierr.RateLimitExceeded ||
		!strings.Contains(a.failure(b.t).Message, limit) || a.header.Get("Retry-After") == "" {
		b.t.Fatalf("got %d %s %v, want a refusal that names %s", a.status, a.body, a.header, limit) // what follows may wait for a runner
	}
}

func (b *bench) taken(a answer) (requestID string) {
	b.t.Helper()
	if a.status != http.StatusAccepted {
		b.t.Fatalf("got %d %s", a.status, a.body)
	}
	return a.header.Get("X-Request-Id")
}

// TestATenantHasSoManyRequestsOpen uses two gateways and one queue, of which the test is the runner.
func TestATenantHasSoManyRequestsOpen(t *testing.T) {
	t.Parallel()
	limited := func(d *gateway.Deps) { d.Config.Gateway.Quotas.TenantRequests = 2 }
	b := start(t, withKeys, limited)
	alice, _ := b.key("acme", "alice")
	bob, _ := b.key("acme", "bob")
	carol, _ := b.key("globex", "carol")
	other := startOn(t, b.nats, b.archive, withKeys, limited)
	other.eventually("the other gateway knows the keys", func() bool {
		return other.get("/v1/agents", "Authorization", "Bearer "+carol).status == http.StatusOK
	})
	b.taken(b.post(requests, hello, "Authorization", "Bearer "+alice))
	// A request that an agent makes is not refused, and counts.
	child := record.Accepted{Tenant: "acme", AgentID: "demo", RequestID: "req_child", ThreadID: "thr_child", Owner: "alice"}
	if err := b.bus.Start(t.Context(), child, 0); err != nil {
		t.Fatal(err)
	}
	for name, gateway := range map[string]*bench{"the gateway that took one": b, "another gateway": other} {
		t.Log(name)
		gateway.overQuota("tenantRequests", gateway.post(requests, hello, "Authorization", "Bearer "+bob))
		a := gateway.post("/api/v1/oneshot/query", `{"query":"hi"}`, "Authorization", "Bearer "+bob)
		if a.status != http.StatusTooManyRequests || !strings.Contains(a.body, "tenantRequests") || a.header.Get("Retry-After") == "" {
			t.Errorf("Tarko: got %d %s %v", a.status, a.body, a.header)
		}
		gateway.taken(gateway.post(requests, hello, "Authorization", "Bearer "+carol))
	}
	p := other.dial("", "Authorization", "Bearer "+bob)
	session := other.session("Authorization", "Bearer "+bob)
	p.join(session, "")
	p.say(`{"type":"send_query","sessionId":"` + session + `","query":"hi"}`)
	if m, err := p.raw(); err != nil || !strings.Contains(string(m), "rate_limit_exceeded") || !strings.Contains(string(m), "tenantRequests") {
		t.Errorf("WebSocket: got %s, %v", m, err)
	}
	b.background(func(ctx context.Context) error { // what ends counts no more
		return b.bus.ConsumeRequests(ctx, 1, func(_ context.Context, s record.Start) error {
			if s.RequestID == child.RequestID {
				return nil
			}
			return bus.ErrLeave
		})
	})
	b.eventually("there is room again", func() bool {
		return other.post(requests, hello, "Authorization", "Bearer "+bob).status == http.StatusAccepted
	})
	b.overQuota("tenantRequests", b.post(requests, hello, "Authorization", "Bearer "+alice))
}

func TestAKeyHasSoManyRequestsOpen(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*bench){
		"with Redis": func(*bench) {}, "without Redis": func(b *bench) { b.redis.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, withKeys, func(d *gateway.Deps) { d.Config.Gateway.Quotas = config.Quotas{KeyRequests: 2} })
			prepare(b)
			first, _ := b.key("default", "alice")
			second, _ := b.key("default", "alice")
			running := b.taken(b.post(requests, hello, "Authorization", "Bearer "+first))
			b.taken(b.post(requests, hello, "Authorization", "Bearer "+first))
			b.overQuota("keyRequests", b.post(requests, hello, "Authorization", "Bearer "+first))
			followUp := b.post("/v1/requests/"+running+"/follow-up", hello, "Authorization", "Bearer "+first)
			b.overQuota("keyRequests", followUp)
			b.taken(b.post(requests, hello, "Authorization", "Bearer "+second))
			b.run(running, metadata(), done())
			b.eventually("there is room again", func() bool {
				return b.post(requests, hello, "Authorization", "Bearer "+first).status == http.StatusAccepted
			})
			b.overQuota("keyRequests", b.post(requests, hello, "Authorization", "Bearer "+first))
		})
	}
}
