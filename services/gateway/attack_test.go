package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway"
)

// route is a route that the gateway serves, as its router tells it: what attacks walk over, so that none is left out.
type route struct{ method, path string }

func (b *bench) routes() []route {
	var all []route
	for _, text := range b.gateway.Routes() {
		method, path, _ := strings.Cut(text, " ")
		all = append(all, route{method, path})
	}
	if len(all) < 15 {
		b.t.Fatalf("the gateway serves only %v", all)
	}
	return all
}

func (r route) String() string { return r.method + " " + r.path }

// versioned reports whether the route belongs to clients, and not to those who operate the gateway.
func (r route) versioned() bool { return strings.HasPrefix(r.path, "/v1/") || r.ofAGUI() }

// maxBody is the limit of the route's body.
func (r route) maxBody() int {
	if r.ofAGUI() {
		return 4 << 20
	}
	return 512 << 10
}

// everything makes a gateway serve all that it can.
func everything(t *testing.T) func(*gateway.Deps) {
	page := withPage(t)
	return func(d *gateway.Deps) {
		page(d)
		d.Metrics = http.NotFoundHandler()
	}
}

// keyless reports whether the route is one of those that need no key. A new route is not, until it is listed here.
func (r route) keyless() bool {
	return slices.Contains([]string{
		"GET /healthz", "GET /readyz", "GET /metrics", "GET /openapi.yaml", "GET /api/v1/health", "GET /api/v1/version",
		"GET /", "GET /:sessionId", "GET /static/*file", // the programs of a page
	}, r.String())
}

// ofTarko reports whether the route belongs to Tarko's protocol, which has errors of its own form.
func (r route) ofTarko() bool { return strings.HasPrefix(r.path, "/api/v1/") || r.path == "/ws" }

// ofAGUI reports whether the route belongs to AG-UI, which has errors of its own form.
func (r route) ofAGUI() bool { return strings.HasPrefix(r.path, "/agui/") }

// refusal returns the code of an error in the form of the native protocol, and "" for a good one in the form of Tarko's.
func (r route) refusal(t *testing.T, a answer) apierr.Code {
	t.Helper()
	if r.ofAGUI() != strings.HasPrefix(a.body, `{"type":"RUN_ERROR"`) {
		t.Errorf("%s: got %d %.200s, want an error in the form of the protocol", r, a.status, a.body)
	}
	if !r.ofTarko() {
		return a.failure(t).Code
	}
	if !strings.HasPrefix(a.body, `{"error":"`) {
		t.Errorf("%s: got %d %.200s, want an error in Tarko's form", r, a.status, a.body)
	}
	return ""
}

// takesBody reports whether the route reads what a client says.
func (r route) takesBody() bool {
	return r.method == http.MethodPost && !strings.HasSuffix(r.path, "/abort")
}

// params are the variable parts of the path, with their colons.
func (r route) params() []string {
	var all []string
	for part := range strings.SplitSeq(r.path, "/") {
		if strings.HasPrefix(part, ":") {
			all = append(all, part)
		}
	}
	return all
}

// target is what an attack aims at: things that exist, so that nothing is refused for want of them.
type target struct{ agent, requestID, threadID string }

// at is the path of the route for the target.
func (r route) at(to target) string {
	return strings.NewReplacer(":agentName", to.agent, ":requestId", to.requestID, ":threadId", to.threadID, ":objectId", "obj_none").Replace(r.path)
}

// with is at with parameters in its URL: the session among them, where the path has no place for it.
func (r route) with(to target, parameters string) string {
	if strings.HasPrefix(r.path, "/api/v1/") {
		parameters = "sessionId=" + to.threadID + "&" + parameters
	}
	return r.at(to) + "?" + parameters
}

// running starts a request that never ends, and has said something.
func (b *bench) running() target {
	b.t.Helper()
	requestID, threadID := b.accepted(hello)
	b.emit(b.claim(requestID), metadata())
	return target{"demo", requestID, threadID}
}

// works makes sure that the gateway still does what it is there for.
func (b *bench) works() {
	b.t.Helper()
	b.accepted(hello)
	if err := b.bus.Ready(b.t.Context()); err != nil {
		b.t.Errorf("the bus does not work any more: %v", err)
	}
}

// lookups returns the subjects on which the gateway asked or wrote to the bus for a request. Its watch of the remote agents, which
// may begin at any time, is not one of them.
func lookups(heard []string) []string {
	var found []string
	for _, subject := range heard {
		if subject == "$JS.API.DIRECT.GET.KV_AGENTBUS_AGENTS" {
			continue
		}
		for _, prefix := range []string{"agentbus.", "$JS.API.DIRECT.GET.", "$JS.API.STREAM.MSG.GET."} {
			if strings.HasPrefix(subject, prefix) {
				found = append(found, subject)
			}
		}
	}
	return found
}

// listen serves the bench's gateway with the server that a process would use, and returns its address.
func (b *bench) listen() string {
	b.t.Helper()
	server := b.gateway.Server("")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(b.gateway.Limit(listener)) }()
	b.t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return listener.Addr().String()
}

// wire is a connection on which a test says what no client would.
type wire struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, addr string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &wire{t, conn, bufio.NewReader(conn)}
}

// say writes text. The server may have closed the connection: that shows when it is read.
func (w *wire) say(format string, args ...any) { _, _ = fmt.Fprintf(w.conn, format, args...) }

// hear reads an answer; status 0 means that the connection was closed instead.
func (w *wire) hear() answer {
	w.t.Helper()
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body), err}
}
