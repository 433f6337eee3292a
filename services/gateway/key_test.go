package gateway_test

import (
	"net/http"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
)

// keptByHistory puts the request of a key into the archive alone: the stream has no record of it any more.
func (b *bench) keptByHistory(requestID, hash string) {
	b.archive.mu.Lock()
	defer b.archive.mu.Unlock()
	b.archive.hash = hash
	b.archive.requests = append(b.archive.requests, historyapi.Request{
		RequestID: requestID, ThreadID: "thr_old", AgentID: "demo", Owner: "dev", Status: historyapi.StatusDone, Index: 1,
	})
}

func TestIdempotencyKeyIsValidAfterRetention(t *testing.T) {
	t.Parallel()
	hash := admission.Hash("demo", []byte(hello))
	byKey := id.Derive(id.Request, "default", "dev", "k1")
	perRoute := id.Derive(id.Request, "default", "dev", "/v1/agents/:agentName/requests", "k1")
	tests := []struct {
		what, requestID, hash string
		status                int
	}{
		{"the same body", byKey, hash, http.StatusAccepted},
		{"another body", byKey, admission.Hash("demo", []byte("{}")), http.StatusUnprocessableEntity},
		{"a version that stored no hash", byKey, "", http.StatusAccepted},
		{"a version in which keys counted per route", perRoute, "", http.StatusAccepted},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.keptByHistory(tt.requestID, tt.hash)
			a := b.post("/v1/agents/demo/requests", hello, "Idempotency-Key", "k1")
			if a.status != tt.status {
				t.Fatalf("got %d %s, want %d", a.status, a.body, tt.status)
			}
			if tt.status == http.StatusAccepted &&
				(a.header.Get("X-Request-Id") != tt.requestID || a.header.Get("Idempotency-Replayed") != "true") {
				t.Errorf("got %v, want request %s again", a.header, tt.requestID)
			}
			if waiting, err := b.bus.QueueDepth(t.Context()); err != nil || waiting != 0 {
				t.Errorf("got %d pointers, %v; want none: the request has run", waiting, err)
			}
		})
	}
}

func TestAKeyOfUnknownAgeIsRefusedWhileHistoryDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b := startOn(t, bustest.NewServer(t), &archive{}) // no history service runs
	a := b.post("/v1/agents/demo/requests", hello, "Idempotency-Key", "invoice-1")
	if a.status != http.StatusServiceUnavailable || a.failure(t).Code != apierr.Unavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 503 with Retry-After", a.status, a.body)
	}
	for _, key := range []string{id.New("idem"), id.New("k")} {
		first := b.post("/v1/agents/demo/requests", hello, "Idempotency-Key", key)
		again := b.post("/v1/agents/demo/requests", hello, "Idempotency-Key", key)
		if first.status != http.StatusAccepted || again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("key %s: got %d %s, and then %v", key, first.status, first.body, again.header)
		}
	}
	if a := b.post("/v1/agents/demo/requests", hello); a.status != http.StatusAccepted {
		t.Errorf("without a key: got %d %s", a.status, a.body)
	}
}
