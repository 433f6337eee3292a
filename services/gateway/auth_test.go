package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/coder/websocket"
)

func TestEveryRouteRequiresAKey(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	routes := []string{
		"POST /v1/agents/demo/stream", "POST /v1/agents/demo/requests", "GET /v1/agents", "GET /v1/requests/r",
		"GET /v1/requests/r/stream", "POST /v1/requests/r/abort", "GET /v1/threads", "GET /v1/threads/t", "DELETE /v1/threads/t",
		"GET /v1/threads/t/messages", "GET /v1/threads/t/events", "GET /v1/threads/t/stream",
	}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		for _, headers := range [][]string{nil, {"Authorization", "Bearer"}, {"Authorization", "Basic YTpi"}, {"Authorization", "Bearer ak_a_b"}} {
			a := b.do(b.request(method, path, hello, headers...))
			if a.status != http.StatusUnauthorized || a.failure(t).Code != apierr.AuthFailed || a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s with %v: got %d %s", route, headers, a.status, a.body)
			}
		}
		if a := b.do(b.request(method, path+"?key=ak_a_b&access_token=ak_a_b", hello)); a.status != http.StatusUnauthorized {
			t.Errorf("%s with a key in the URL: got %d", route, a.status)
		}
	}
	for _, open := range []string{"/healthz", "/readyz", "/openapi.yaml"} {
		if a := b.get(open); a.status != http.StatusOK {
			t.Errorf("%s: got %d, want no key to be needed", open, a.status)
		}
	}
}

func TestOwnership(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	alice, _ := b.key("acme", "alice")
	aliceToo, _ := b.key("acme", "alice")
	bob, _ := b.key("acme", "bob")
	carol, _ := b.key("globex", "alice")
	made := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+alice)
	requestID, threadID := made.header.Get("X-Request-Id"), made.header.Get("X-Thread-Id")
	routes := []struct{ method, path, body string }{
		{"POST", "/v1/agents/demo/stream", onThread(threadID)}, {"POST", "/v1/agents/demo/requests", onThread(threadID)},
		{"POST", "/v1/agents/demo/requests", resolving(threadID, "act_1")},
		{"GET", "/v1/requests/" + requestID, ""}, {"GET", "/v1/requests/" + requestID + "/stream", ""},
		{"GET", "/v1/requests/" + requestID + "/stream?after=" + b.bus.Incarnation() + "-0", ""},
		{"POST", "/v1/requests/" + requestID + "/abort", ""}, {"GET", "/v1/threads/" + threadID, ""},
		{"GET", "/v1/threads/" + threadID + "/messages", ""}, {"GET", "/v1/threads/" + threadID + "/events", ""},
		{"GET", "/v1/threads/" + threadID + "/stream", ""}, {"DELETE", "/v1/threads/" + threadID, ""},
	}
	for _, route := range routes {
		a := b.do(b.request(route.method, route.path, route.body, "Authorization", "Bearer "+bob))
		if a.status != http.StatusForbidden || a.failure(t).Code != apierr.ThreadAccessDenied {
			t.Errorf("%s %s by another owner: got %d %s", route.method, route.path, a.status, a.body)
		}
		a = b.do(b.request(route.method, route.path, route.body, "Authorization", "Bearer "+carol))
		if a.status != http.StatusNotFound {
			t.Errorf("%s %s by another tenant: got %d %s", route.method, route.path, a.status, a.body)
		}
	}
	if a := b.get("/v1/requests/"+requestID, "Authorization", "Bearer "+aliceToo); a.status != http.StatusOK {
		t.Errorf("by the same owner's other key: got %d %s", a.status, a.body)
	}
	if a := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+bob, "Idempotency-Key", "k"); a.status != 202 {
		t.Errorf("bob's own: got %d", a.status)
	}
	other := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+alice, "Idempotency-Key", "k")
	if other.status != 202 || other.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("alice's with bob's idempotency key: got %d %v", other.status, other.header)
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	reader, _ := b.key("acme", "alice", auth.ScopeRead)
	runner, _ := b.key("acme", "bob", auth.ScopeRun)
	tests := []struct {
		key, method, path string
		status            int
	}{
		{reader, "GET", "/v1/agents", 200},
		{reader, "POST", "/v1/agents/demo/requests", 401},
		{reader, "DELETE", "/v1/threads/t", 401},
		{runner, "GET", "/v1/agents", 401},
		{runner, "POST", "/v1/agents/demo/requests", 202},
	}
	for _, test := range tests {
		if a := b.do(b.request(test.method, test.path, hello, "Authorization", "Bearer "+test.key)); a.status != test.status {
			t.Errorf("%s %s: got %d %s, want %d", test.method, test.path, a.status, a.body, test.status)
		}
	}
}

func TestARevokedKeyLosesItsStreams(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	key, record := b.key("default", "alice")
	made := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+key)
	requestID := made.header.Get("X-Request-Id")
	b.emit(b.claim(requestID), metadata())
	resp, reader := b.open(b.request(http.MethodGet, "/v1/requests/"+requestID+"/stream", "", "Authorization", "Bearer "+key))
	if _, err := reader.Next(); err != nil {
		t.Fatal(err)
	}
	record.Revoked = true
	if err := b.bus.PutKey(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want a cut connection", err)
	}
	if a := b.get("/v1/agents", "Authorization", "Bearer "+key); a.status != http.StatusUnauthorized {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

// TestAnExpiredKeyLosesItsStreams opens a stream by every transport and lets the key expire while nothing happens.
func TestAnExpiredKeyLosesItsStreams(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	key, record := b.key("default", "alice")
	bearer := []string{"Authorization", "Bearer " + key}
	made := b.post("/v1/agents/demo/requests", hello, bearer...)
	requestID, threadID := made.header.Get("X-Request-Id"), made.header.Get("X-Thread-Id")
	b.emit(b.claim(requestID), metadata())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(method, path, body string, headers ...string) func() error {
		resp, err := http.DefaultClient.Do(b.request(method, path, body, append(headers, bearer...)...).WithContext(ctx)) //nolint:bodyclose // the returned function closes it
		if err != nil {
			t.Fatal(err)
		}
		return func() error {
			defer resp.Body.Close()
			_, err := io.Copy(io.Discard, resp.Body)
			return err
		}
	}
	streams := map[string]func() error{
		"events of a request": open(http.MethodGet, "/v1/requests/"+requestID+"/stream", ""),
		"lines of a request":  open(http.MethodGet, "/v1/requests/"+requestID+"/stream", "", "Accept", "application/x-ndjson"),
		"a thread":            open(http.MethodGet, "/v1/threads/"+threadID+"/stream", ""),
		"a session":           open(http.MethodGet, "/api/v1/sessions/events/stream?sessionId="+threadID, ""),
	}
	p := b.dial("", bearer...)
	polled, tap := make(chan int, 1), b.nats.Tap(t)
	go func() {
		resp, err := http.DefaultClient.Do(b.request(http.MethodPost, "/api/v1/oneshot/query", `{"query":"hello"}`, bearer...).WithContext(ctx))
		if err != nil {
			polled <- 0
			return
		}
		_ = resp.Body.Close()
		polled <- resp.StatusCode
	}()
	b.eventually("the query is accepted", func() bool { // by then its key has been checked, and it waits for its result
		return slices.ContainsFunc(tap.Received(), func(subject string) bool { return strings.HasPrefix(subject, "agentbus.accept.") })
	})
	record.ExpiresAt = time.Now().Add(time.Second)
	if err := b.bus.PutKey(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	for what, end := range streams {
		if err := end(); !errors.Is(err, io.ErrUnexpectedEOF) || ctx.Err() != nil {
			t.Errorf("%s: got %v, want a cut connection", what, err)
		}
	}
	if status := <-polled; status != http.StatusUnauthorized {
		t.Errorf("a query that waits for its result: got %d", status)
	}
	if _, err := p.raw(); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the WebSocket: got %v", err)
	}
}

func TestWrongKeysAreDelayed(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	key, _ := b.key("acme", "alice")
	last := answer{}
	for range 100 {
		if last = b.get("/v1/agents", "Authorization", "Bearer ak_a_b"); last.status == http.StatusTooManyRequests {
			break
		}
	}
	if last.status != http.StatusTooManyRequests || last.header.Get("Retry-After") == "" {
		t.Errorf("after 100 wrong keys: got %d %s", last.status, last.body)
	}
	if a := b.get("/v1/agents", "Authorization", "Bearer "+key); a.status != http.StatusOK {
		t.Errorf("a valid key from the same address: got %d %s", a.status, a.body)
	}
}

func TestAuthenticationNeedsAPepper(t *testing.T) {
	t.Parallel()
	if _, err := gateway.New(gateway.Deps{AuthRequired: true}); err == nil {
		t.Error("got no error")
	}
}
