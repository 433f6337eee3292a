// Package storage tests the limits on stored bytes with gateways and history on real servers: NATS, a SQL database and HTTP.
package storage

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/agentbus/agentbus/services/history"
	"github.com/alicebob/miniredis/v2"
	"github.com/coder/websocket"
	"go.opentelemetry.io/otel/metric/noop"
)

const (
	pepper   = "a pepper for tests, long enough"
	requests = "/v1/agents/demo/requests"
	hello    = `{"messages":[{"role":"user","content":"hi"}]}`
)

// deadline is generous: the machine of the test may be busy.
const deadline = time.Minute

// bench is NATS with gateways on it. The test is the runner, and starts history where it needs it.
type bench struct {
	t        *testing.T
	nats     bustest.Server
	bus      *bus.Bus
	redis    *miniredis.Miniredis
	database string
	gateway  *httptest.Server
}

func start(t *testing.T, quotas config.Quotas) *bench {
	t.Helper()
	b := &bench{
		t: t, nats: bustest.NewServer(t), redis: miniredis.RunT(t), database: "sqlite:" + filepath.Join(t.TempDir(), "history.db"),
	}
	b.bus = b.nats.Connect(t, "test")
	b.gateway = b.startGateway(quotas)
	return b
}

func (b *bench) startGateway(quotas config.Quotas) *httptest.Server {
	b.t.Helper()
	store, err := rediscache.Open("redis://" + b.redis.Addr())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = store.Close() })
	connection := b.nats.Connect(b.t, "gateway")
	g, err := gateway.New(gateway.Deps{
		Bus: connection, History: historyapi.NewClient(connection), State: store, AuthRequired: true, Pepper: []byte(pepper),
		MeterProvider: noop.NewMeterProvider(), Log: slog.New(slog.DiscardHandler),
		Config: config.Config{
			Agents:  map[string]config.Agent{"demo": {Backend: "scripted"}},
			Gateway: config.Gateway{Quotas: quotas},
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.background(g.Run))
	server := httptest.NewServer(g.Handler())
	b.t.Cleanup(func() {
		_ = server.Listener.Close() // first: a client could connect again
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// startHistory runs history until stop is called.
func (b *bench) startHistory() (stop func()) {
	b.t.Helper()
	h, err := history.New(b.t.Context(), history.Deps{
		Bus: history.BusOf(b.nats.Connect(b.t, "history")), DatabaseURL: b.database, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	stop = b.background(h.Run)
	b.t.Cleanup(stop)
	b.eventually("history is ready", func() bool { return h.Ready(b.t.Context()) == nil })
	return stop
}

// background runs f until the returned function is called, which waits for it.
func (b *bench) background(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			b.t.Errorf("background: %v", err)
		}
	})
}

func (b *bench) eventually(what string, ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(deadline); !ok(); {
		if time.Now().After(end) {
			b.t.Fatalf("%s: not after %s", what, deadline)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// key makes an API key that the gateways know.
func (b *bench) key(tenant, subject string, gateways ...*httptest.Server) string {
	b.t.Helper()
	issuer, err := auth.NewIssuer([]byte(pepper))
	if err != nil {
		b.t.Fatal(err)
	}
	plain, record, err := issuer.New(tenant, subject, nil, time.Hour, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.bus.PutKey(b.t.Context(), bus.KeyRecord(record)); err != nil {
		b.t.Fatal(err)
	}
	for _, g := range append(gateways, b.gateway) {
		b.eventually("the gateway knows the key", func() bool {
			return b.call(g, plain, http.MethodGet, "/v1/agents", "").status == http.StatusOK
		})
	}
	return plain
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

func (b *bench) call(g *httptest.Server, key, method, path, body string, headers ...string) answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, g.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := g.Client().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

func (b *bench) post(key, path, body string, headers ...string) answer {
	b.t.Helper()
	return b.call(b.gateway, key, http.MethodPost, path, body, headers...)
}

// taken starts a request and returns its id and its thread.
func (b *bench) taken(key, body string, headers ...string) (requestID, threadID string) {
	b.t.Helper()
	a := b.post(key, requests, body, headers...)
	if a.status != http.StatusAccepted {
		b.t.Fatalf("got %d %s", a.status, a.body)
	}
	return a.header.Get("X-Request-Id"), a.header.Get("X-Thread-Id")
}

// ends writes the log of a request, as a runner does.
func (b *bench) ends(tenant, requestID, threadID string) {
	b.t.Helper()
	w, _, err := b.bus.Claim(b.t.Context(), bus.LogID{Tenant: tenant, RequestID: requestID}, "bench", "test")
	if err != nil {
		b.t.Fatal(err)
	}
	defer w.Close()
	for _, body := range []event.Body{
		event.Metadata{ThreadID: threadID, AgentID: "demo", ProtocolVersion: event.Protocol},
		event.Done{MessageID: "m", ThreadID: threadID, Content: []event.Content{}, FinishReason: event.FinishStop},
	} {
		if err := w.Emit(body); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := w.Flush(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// refuses checks an answer: its status and shape, the name of the limit, and when to try again.
func (b *bench) refuses(what, limit, shape string, a answer) {
	b.t.Helper()
	if a.status != http.StatusTooManyRequests || !strings.Contains(a.body, "limit "+limit+": ") ||
		!strings.Contains(a.body, "rate_limit_exceeded") || !strings.Contains(a.body, shape) || a.header.Get("Retry-After") != "60" {
		b.t.Errorf("%s: got %d %s %v, want a refusal that names %s", what, a.status, a.body, a.header, limit)
	}
}

// says sends a message over a WebSocket and returns the answer.
func (b *bench) says(key, message string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), deadline)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(b.gateway.URL, "http")+"/ws?format=flat", //nolint:bodyclose // it has none then
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + key}}})
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
		b.t.Fatal(err)
	}
	_, text, err := conn.Read(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}
