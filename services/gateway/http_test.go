package gateway_test

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/services/gateway"
)

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := start(t)
	tests := []struct {
		method, path string
		status       int
		code         apierr.Code
	}{
		{"GET", "/", 404, apierr.RouteNotFound},
		{"GET", "/v2/agents", 404, apierr.RouteNotFound},
		{"GET", "/v1/threads/", 404, apierr.RouteNotFound},
		{"GET", "/v1/agents/demo/stream", 405, apierr.RouteNotFound},
		{"PUT", "/v1/threads/t", 405, apierr.RouteNotFound},
		{"POST", "/v1/agents/nobody/stream", 404, apierr.AgentNotFound},
		{"GET", "/v1/requests/req_none", 404, apierr.RequestNotFound},
		{"GET", "/v1/requests/req_none/stream", 404, apierr.RequestNotFound},
		{"POST", "/v1/requests/req_none/abort", 404, apierr.RequestNotFound},
		{"GET", "/v1/threads/thr_none", 404, apierr.ThreadNotFound},
		{"DELETE", "/v1/threads/thr_none", 404, apierr.ThreadNotFound},
		{"GET", "/v1/threads/thr_none/messages", 404, apierr.ThreadNotFound},
		{"GET", "/v1/threads/thr_none/events", 404, apierr.ThreadNotFound},
		{"GET", "/v1/threads/thr_none/stream", 404, apierr.ThreadNotFound},
		{"GET", "/v1/threads/thr_none/objects/obj_none", 404, apierr.ThreadNotFound},
		{"GET", "/v1/threads/thr_none/objects/no.object", 404, apierr.ObjectNotFound},
		{"GET", "/v1/threads?limit=0", 400, apierr.InvalidMessageFormat},
		{"GET", "/v1/threads?limit=201", 400, apierr.InvalidMessageFormat},
		{"GET", "/v1/threads?limit=ten", 400, apierr.InvalidMessageFormat},
		{"GET", "/v1/threads/t/events?limit=1001", 400, apierr.InvalidMessageFormat},
		{"GET", "/v1/threads/t/events?since=yesterday", 400, apierr.InvalidMessageFormat},
		{"GET", "/v1/threads/t/events?until=5", 400, apierr.InvalidMessageFormat},
		{"GET", "/v1/threads/t/events?type=tool_output", 400, apierr.InvalidMessageFormat},
		{"GET", "/v1/threads/t/events?type=text,nonsense", 400, apierr.InvalidMessageFormat},
		{"POST", "/v1/agents/demo/stream?include=tool_output", 400, apierr.InvalidMessageFormat},
	}
	for _, test := range tests {
		a := b.do(b.request(test.method, test.path, hello))
		if a.status != test.status || a.failure(t).Code != test.code || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: got %d %s, want %d %s", test.method, test.path, a.status, a.body, test.status, test.code)
		}
		if test.status == 405 && a.header.Get("Allow") == "" {
			t.Errorf("%s %s: got no Allow header", test.method, test.path)
		}
	}
	if a := b.post("/v1/agents/demo/requests", onThread("thr_none")); a.status != 404 || a.failure(t).Code != apierr.ThreadNotFound {
		t.Errorf("a request on no thread: got %d %s", a.status, a.body)
	}
}

func TestBodiesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.MaxBody = 1000 })
	message := func(size int) string {
		empty := `{"messages":[{"role":"user","content":""}]}`
		return strings.Replace(empty, `""`, `"`+strings.Repeat("x", size-len(empty))+`"`, 1)
	}
	if a := b.post("/v1/agents/demo/requests", message(1000)); a.status != http.StatusAccepted {
		t.Errorf("1000 bytes: got %d %s", a.status, a.body)
	}
	if a := b.post("/v1/agents/demo/requests", message(1001)); a.status != 413 || a.failure(t).Code != apierr.MessageTooLarge {
		t.Errorf("1001 bytes: got %d %s", a.status, a.body)
	}
	chunked := b.request(http.MethodPost, "/v1/agents/demo/requests", message(1001))
	chunked.ContentLength = -1
	if a := b.do(chunked); a.status != 413 || a.failure(t).Code != apierr.MessageTooLarge {
		t.Errorf("1001 bytes in chunks: got %d %s", a.status, a.body)
	}
	if a := b.post("/v1/agents/demo/requests", hello, "Content-Encoding", "gzip"); a.status != 415 || a.failure(t).Code != apierr.InvalidMessageFormat {
		t.Errorf("gzip: got %d %s", a.status, a.body)
	}
}

func TestTruncatedBodyIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/agents/demo/requests HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n%s", hello)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 64)
	if n, err := conn.Read(reply); err == nil && !strings.Contains(string(reply[:n]), "400") {
		t.Errorf("got %q, want 400 or a closed connection", reply[:n])
	}
	_ = conn.Close()
}

func TestCORS(t *testing.T) {
	t.Parallel()
	const friend, stranger = "https://app.example.com", "https://app.example.com.evil.com"
	listed := start(t, func(d *gateway.Deps) { d.Config.Gateway.CORS = []string{friend} })
	every := start(t, func(d *gateway.Deps) { d.Config.Gateway.CORS = []string{"*"} })
	none := start(t)
	tests := []struct {
		what    string
		b       *bench
		method  string
		headers []string
		status  int
		allowed string
	}{
		{"a friend reads", listed, "GET", []string{"Origin", friend}, 200, friend},
		{"a friend asks first", listed, "OPTIONS", []string{"Origin", friend, "Access-Control-Request-Method", "POST"}, 204, friend},
		{"a stranger asks first", listed, "OPTIONS", []string{"Origin", stranger, "Access-Control-Request-Method", "POST"}, 405, ""},
		{"a stranger reads", listed, "GET", []string{"Origin", stranger}, 200, ""},
		{"a page without an origin reads", listed, "GET", []string{"Origin", "null"}, 200, ""},
		{"anybody reads where all may", every, "GET", []string{"Origin", stranger}, 200, "*"},
		{"no origin may read by default", none, "GET", []string{"Origin", friend}, 200, ""},
	}
	for _, test := range tests {
		a := test.b.do(test.b.request(test.method, "/v1/agents", "", test.headers...))
		if a.status != test.status || a.header.Get("Access-Control-Allow-Origin") != test.allowed || a.header.Get("Vary") != "Origin" {
			t.Errorf("%s: got %d %v", test.what, a.status, a.header)
		}
		if test.allowed != "" && !strings.Contains(a.header.Get("Access-Control-Expose-Headers"), "X-Request-Id") {
			t.Errorf("%s: the page may not read X-Request-Id", test.what)
		}
	}
	posts := []struct {
		what    string
		b       *bench
		headers []string
		status  int
	}{
		{"no browser", listed, nil, 202},
		{"a friend's page", listed, []string{"Origin", friend, "Sec-Fetch-Site", "cross-site"}, 202},
		{"a stranger's page", listed, []string{"Origin", stranger, "Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain"}, 403},
		{"a stranger's page in an old browser", none, []string{"Origin", stranger}, 403},
		{"the gateway's own page", none, []string{"Origin", none.server.URL, "Sec-Fetch-Site", "same-origin"}, 202},
		{"any page where all may", every, []string{"Origin", stranger, "Sec-Fetch-Site", "cross-site"}, 202},
	}
	for _, test := range posts {
		if a := test.b.post("/v1/agents/demo/requests", hello, test.headers...); a.status != test.status {
			t.Errorf("%s: got %d %s, want %d", test.what, a.status, a.body, test.status)
		}
	}
	a := none.post("/api/v1/sessions/create", "{}", "Origin", stranger)
	if a.status != http.StatusForbidden || !strings.HasPrefix(a.body, `{"error":"`) {
		t.Errorf("on a route of Tarko's: got %d %s, want 403 in its shape", a.status, a.body)
	}
}

// Every route is asked, so that a new one cannot be forgotten.
func TestParametersThatAreNoTextAreRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, route := range b.gateway.Routes() {
		method, path, _ := strings.Cut(regexp.MustCompile(`[:*][A-Za-z]+`).ReplaceAllString(route, "x"), " ")
		for _, query := range []string{"?cursor=%ff%fe", "?after=%ff", "?%ff=1"} {
			if a := b.do(b.request(method, path+query, "")); a.status != http.StatusBadRequest {
				t.Errorf("%s %s%s: got %d %s", method, path, query, a.status, a.body)
			}
		}
	}
}

func TestInvalidOriginIsRefused(t *testing.T) {
	t.Parallel()
	_, err := gateway.New(gateway.Deps{Config: config.Config{Gateway: config.Gateway{CORS: []string{"app.example.com"}}}})
	if err == nil || !strings.Contains(err.Error(), "gateway.cors") {
		t.Errorf("got %v, want an error that names gateway.cors", err)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*bench){
		"with Redis": func(*bench) {}, "without Redis": func(b *bench) { b.redis.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, func(d *gateway.Deps) {
				d.Config.Gateway.RateLimit = config.Rate{Requests: 2, Per: config.Duration(time.Hour), Burst: 3}
			})
			prepare(b)
			for i := range 3 {
				if a := b.get("/v1/agents"); a.status != 200 {
					t.Fatalf("call %d: got %d %s", i, a.status, a.body)
				}
			}
			a := b.get("/v1/agents")
			if a.status != 429 || a.failure(t).Code != apierr.RateLimitExceeded || !a.failure(t).Retryable || a.header.Get("Retry-After") == "" {
				t.Errorf("got %d %s %v", a.status, a.body, a.header)
			}
			if a := b.get("/readyz"); a.status != 200 {
				t.Errorf("readyz: got %d", a.status)
			}
		})
	}
}

func TestAgentsAndDocuments(t *testing.T) {
	t.Parallel()
	b := start(t)
	if a := b.get("/v1/agents"); a.body != `{"agents":[{"name":"demo","backend":"scripted","tools":["calculator"]}]}`+"\n" {
		t.Errorf("got %s", a.body)
	}
	if a := b.get("/openapi.yaml"); a.status != 200 || !strings.HasPrefix(a.body, "openapi: ") {
		t.Errorf("got %d %.40s", a.status, a.body)
	}
	a := b.post("/v1/agents/demo/requests", hello)
	requestID := a.header.Get("X-Request-Id")
	want := fmt.Sprintf(`{"requestId":%q,"threadId":%q,"agentId":"demo","status":"queued"}`+"\n", requestID, a.header.Get("X-Thread-Id"))
	if a.status != 202 || a.body != want || a.header.Get("Location") != "/v1/requests/"+requestID {
		t.Errorf("got %d %s %v, want %s", a.status, a.body, a.header, want)
	}
}

func TestTheServerHasLimits(t *testing.T) {
	t.Parallel()
	s := start(t).gateway.Server("127.0.0.1:0")
	if s.ReadHeaderTimeout == 0 || s.IdleTimeout == 0 || s.MaxHeaderBytes != 16<<10 || s.Handler == nil {
		t.Errorf("got %+v", s)
	}
}
