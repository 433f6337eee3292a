package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway"
)

// A request that its log cannot hold must be refused before anything of it is stored: a thread record without an accept
// record was a thread with a request that nothing could run.
func TestARefusedRequestLeavesNoRecord(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.MaxBody = 8 << 20 })
	tap := b.nats.Tap(t)
	for name, text := range map[string]string{
		"a long text":              strings.Repeat("x", 1_500_000),
		"a text that grows stored": strings.Repeat("\u2028", 165_000),
	} {
		body := `{"messages":[{"role":"user","content":"` + text + `"}]}`
		for _, path := range []string{"/v1/agents/demo/requests", "/v1/agents/demo/stream"} {
			for _, headers := range [][]string{nil, {"Idempotency-Key", "0123456789"}} {
				a := b.post(path, body, headers...)
				if a.status != http.StatusRequestEntityTooLarge || a.failure(t).Code != apierr.MessageTooLarge {
					t.Errorf("%s at %s: got %d %.200s, want 413", name, path, a.status, a.body)
				}
			}
		}
	}
	stored := func(subject string) bool {
		for _, record := range []string{".accept.", ".thread.", ".request.", ".event.", ".session."} {
			if strings.Contains(subject, record) && strings.HasPrefix(subject, "agentbus.") {
				return true
			}
		}
		return false
	}
	if heard := tap.Received(); slices.ContainsFunc(heard, stored) {
		t.Errorf("got messages on %q, want none stored", heard)
	}
	b.works()
	heard := tap.Received()
	first := func(record string) int {
		return slices.IndexFunc(heard, func(subject string) bool { return strings.HasPrefix(subject, "agentbus."+record+".") })
	}
	// A gateway may die between the two.
	if accept, thread := first("accept"), first("thread"); accept < 0 || thread < accept {
		t.Errorf("of a good request the gateway writes %q, want its record before that of the thread", heard)
	}
}

// A steer that fits into a record and not into an event would end the request that it is for.
func TestASteerThatItsLogCannotHoldIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.MaxBody = 8 << 20 })
	to, tap := b.running(), b.nats.Tap(t)
	body := `{"messages":[{"role":"user","content":"` + strings.Repeat("\u2028", 165_000) + `"}]}`
	a := b.post("/v1/requests/"+to.requestID+"/steer", body)
	if a.status != http.StatusRequestEntityTooLarge || a.failure(t).Code != apierr.MessageTooLarge {
		t.Errorf("got %d %.200s, want 413", a.status, a.body)
	}
	if heard := tap.Received(); slices.ContainsFunc(heard, func(s string) bool { return strings.HasPrefix(s, "agentbus.command.") }) {
		t.Errorf("got messages on %q, want none stored", heard)
	}
}
