package hub_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub"
)

// guarded is a hub that requires API keys, and a key for it.
func guarded(t *testing.T) (house, string) {
	t.Helper()
	b, pepper := bustest.New(t), []byte("a pepper of more than 16 bytes")
	issuer, err := auth.NewIssuer(pepper)
	if err != nil {
		t.Fatal(err)
	}
	key, record, err := issuer.New("default", "tester", nil, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.PutKey(t.Context(), bus.KeyRecord(record)); err != nil {
		t.Fatal(err)
	}
	o, err := hub.New(t.Context(), hub.Deps{
		Bus: b, DatabaseURL: "sqlite::memory:", Secret: []byte("0123456789abcdef"), Log: slog.New(slog.DiscardHandler),
		Config: config.Config{Hub: nearby()}, AuthRequired: true, Pepper: pepper,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	server := httptest.NewServer(o.Handler())
	t.Cleanup(func() {
		server.Close()
		cancel()
		<-ended
	})
	h := house{t: t, bus: b, url: server.URL, routes: o.Routes(), putKey: b.PutKey}
	eventually(t, func() error {
		if status, text := h.ask(http.MethodGet, "/api/agents", key, nil, nil); status != http.StatusOK {
			return fmt.Errorf("got %d %s", status, text)
		}
		return nil
	})
	return h, key
}

func TestGuessesAreLimited(t *testing.T) {
	t.Parallel()
	beat := remoteagent.Heartbeat{AgentID: "vm-1", Status: remoteagent.Idle}
	tests := map[string]struct {
		method, path string
		body         any
	}{
		"API keys":        {http.MethodGet, "/api/agents", nil},
		"API keys at MCP": {http.MethodPost, "/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ping"}},
		"keys of agents":  {http.MethodPost, remoteagent.PathHeartbeat("vm-1"), beat},
		"set-up tokens":   {http.MethodPost, remoteagent.PathRegister, remoteagent.Registration{Token: "hub_guess", ID: "vm-1"}},
		"completions":     {http.MethodPost, remoteagent.PathWebhook, remoteagent.Completion{AgentID: "vm-1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, key := guarded(t)
			refused := 0
			for range 100 {
				status, text := h.ask(test.method, test.path, "ak_guess_0123456789abcdef", test.body, nil)
				switch status {
				case http.StatusTooManyRequests:
					refused++
				case http.StatusUnauthorized:
				default:
					t.Fatalf("got %d %s, want 401 or 429", status, text)
				}
			}
			if refused == 0 {
				t.Error("got no 429 in 100 guesses")
			}
			if status, text := h.ask(http.MethodGet, "/api/agents", key, nil, nil); status != http.StatusOK {
				t.Errorf("a valid key meanwhile: got %d %s, want 200", status, text)
			}
		})
	}
}

func TestCallsOfAKeyAreLimited(t *testing.T) {
	t.Parallel()
	h, key := guarded(t)
	for range 1200 {
		if status, _ := h.ask(http.MethodGet, "/api/agents/vm-1", key, nil, nil); status == http.StatusTooManyRequests {
			return
		}
	}
	t.Error("got no 429 in 1200 calls, want at most 600 a minute")
}

func TestRegistrationURLsNameAServerAlone(t *testing.T) {
	t.Parallel()
	h := memory(t)
	var reached atomic.Bool
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Store(true)
		http.Error(w, `{"message":"INTERNAL-SECRET-BODY"}`, http.StatusTeapot)
	}))
	t.Cleanup(inner.Close)
	for _, suffix := range []string{"/admin", "/admin#", "/admin?", "#", "?", "/?x=1", "/..//admin"} {
		status, text := h.ask(http.MethodPost, "/api/agents", "", map[string]any{"url": inner.URL + suffix, "apiKey": machineKey}, nil)
		if status != http.StatusBadRequest || reached.Load() {
			t.Errorf("%q: got %d %s, want 400 before anything is asked", suffix, status, text)
		}
	}
	user := strings.Replace(inner.URL, "http://", "http://user:password@", 1)
	if status, _ := h.ask(http.MethodPost, "/api/agents", "", map[string]any{"url": user, "apiKey": machineKey}, nil); status != http.StatusBadRequest {
		t.Errorf("with a user: got %d, want 400", status)
	}
	status, text := h.ask(http.MethodPost, "/api/agents", "", map[string]any{"url": inner.URL, "apiKey": machineKey}, nil)
	if status != http.StatusBadRequest || strings.Contains(text, "INTERNAL-SECRET-BODY") || !reached.Load() {
		t.Errorf("a server that is not an agent: got %d %s, want 400 without its answer", status, text)
	}
}

func TestErrorsNameNoGoType(t *testing.T) {
	t.Parallel()
	h := memory(t)
	for _, body := range []any{[]string{"x"}, "x", map[string]any{"task": 1}, map[string]any{"unknown": 1}} {
		for _, path := range []string{"/api/agents", "/api/agents/vm-1/tasks", "/api/agents/vm-1/key", remoteagent.PathRegister} {
			if status, text := h.ask(http.MethodPost, path, "", body, nil); strings.Contains(text, "Go ") || status >= 500 {
				t.Errorf("%s %v: got %d %s, want an error without a Go type", path, body, status, text)
			}
		}
	}
}

// A body that stops arriving must end its connection on any server that serves the hub's handler, as in agentbus dev.
func TestBodiesHaveADeadline(t *testing.T) {
	t.Parallel()
	h := memory(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /api/agents HTTP/1.1\r\nHost: hub\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("got %v, want an answer once the deadline has passed", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusBadRequest || !response.Close {
		t.Errorf("got %s, close %v, want 400 and a closed connection", response.Status, response.Close)
	}
}

// A length in addition to the chunks could make the rest a second request for a server in front of the hub.
func TestARequestInChunksIsTheLastOfItsConnection(t *testing.T) {
	t.Parallel()
	h := memory(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	const body, second = "2\r\n{}\r\n0\r\n\r\n", "GET /api/agents HTTP/1.1\r\nHost: hub\r\n\r\n"
	_, err = fmt.Fprintf(conn, "POST /api/agents HTTP/1.1\r\nHost: hub\r\nContent-Length: 500\r\nTransfer-Encoding: chunked\r\n\r\n%s%s", body, second)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := io.ReadAll(conn) // it may be reset: the second request stays unread
	if n := strings.Count(string(answers), "HTTP/1.1 "); n != 1 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %d answers and %v, want one and the end of the connection: %s", n, err, answers)
	}
}
