package gateway_test

import (
	"bufio"
	"cmp"
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
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/go-json-experiment/json"
)

// route is a route that the gateway serves. Attacks walk over all of them: the router lists them, and the protocols describe
// them.
type route struct {
	method, path string
	owner        protocol.Protocol // the first protocol for the routes that belong to none
	ofProtocol   bool              // false for the routes of those who operate the gateway
	spec         protocol.Route
}

func (b *bench) routes() []route {
	b.t.Helper()
	protocols := b.gateway.Protocols()
	described := map[string]route{}
	for _, p := range protocols {
		for _, spec := range p.Routes() {
			r := route{spec.Method, spec.Path, p, true, spec}
			described[r.String()] = r
		}
	}
	var all []route
	for _, text := range b.gateway.Routes() {
		r, ok := described[text]
		if !ok {
			method, path, _ := strings.Cut(text, " ")
			r = route{method: method, path: path, owner: protocols[0]}
		}
		delete(described, text)
		all = append(all, r)
	}
	if len(described) > 0 || len(all) < 15 {
		b.t.Fatalf("the gateway serves only %v, and not %v", all, described)
	}
	return all
}

func (r route) String() string { return r.method + " " + r.path }

// strict reports whether the protocol of the route refuses each mistake in a body. A protocol that is not listed here may
// accept some.
func (r route) strict() bool {
	return slices.Contains([]string{"native", "agui"}, r.owner.Name())
}

// isRPC reports whether the errors of the route are in responses with the status 200.
func (r route) isRPC() bool { return r.path == "/a2a/:agentName" }

// readsHistory reports whether the route needs history to respond to a body that it accepts.
func (r route) readsHistory() bool {
	return strings.HasSuffix(r.path, "/threads/search") || strings.HasSuffix(r.path, "/history") || r.method == http.MethodPatch
}

// strangers returns bodies with the id ID in other places than the thread of [route.body].
func (r route) strangers() []string {
	switch {
	case r.path == "/ai-sdk/:agentName":
		return []string{`{"id":"t","messages":[{"id":"a","role":"assistant","parts":[{"type":"dynamic-tool","toolName":"n","toolCallId":"c",` +
			`"state":"approval-responded","approval":{"id":"ID","approved":true}}]}]}`}
	case r.path == "/agui/:agentName":
		return []string{`{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"ID","status":"resolved","payload":true}]}`}
	case strings.HasPrefix(r.path, "/openai/v1/chat"):
		return []string{`{"model":"demo","messages":[{"role":"tool","tool_call_id":"tool:ID:t","content":"x"}]}`}
	case r.path == "/openai/v1/responses":
		return []string{
			`{"model":"demo","input":[{"type":"function_call_output","call_id":"tool:ID:t","output":"x"}]}`,
			`{"model":"demo","input":[{"type":"mcp_approval_response","approval_request_id":"approval:ID:t","approve":true}]}`,
			`{"model":"demo","input":[{"type":"item_reference","id":"msg_ID_0"},{"role":"user","content":"x"}]}`,
			`{"model":"demo","input":"x","previous_response_id":"ID"}`, `{"model":"demo","input":"x","conversation":{"id":"ID"}}`,
		}
	case r.owner.Name() == "native" && strings.Contains(r.path, ":agentName"):
		return []string{`{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"ID","status":"success"}]}}`}
	}
	return nil
}

// body returns a body that names a thread and that every route of the protocol reads as far as the owner of the thread. The
// protocols that are not listed here use the members that are common in others.
func (r route) body(threadID string) string {
	switch name := r.owner.Name(); {
	case name == "native" && !strings.Contains(r.path, ":agentName"):
		return hello // the thread is that of the request in the path
	case name == "native":
		return onThread(threadID)
	case name == "tarko":
		return mention(threadID)
	case r.path == "/openai/v1/responses":
		return `{"model":"demo","input":"more","conversation":"` + threadID + `"}`
	case name == "aisdk":
		return `{"id":"` + threadID + `","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"more"}]}]}`
	case name == "a2a" && strings.HasSuffix(r.path, ":agentName"):
		return `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + a2aMessage(threadID) + `}`
	case name == "a2a" && strings.HasSuffix(r.path, "/pushNotificationConfigs"):
		return `{"url":"https://example.com/hook"}`
	case name == "a2a":
		return a2aMessage(threadID)
	case name == "openai":
		return `{"model":"demo","messages":[{"role":"user","content":"more"}],"metadata":{"thread_id":"` + threadID + `"}}`
	case name == "langgraph":
		return `{"assistant_id":"demo","input":{"messages":"more"},"channels":["values"],` + // the thread is in the path
			`"id":1,"method":"input.respond","params":{"interrupt_id":"act_1","response":true}}`
	default:
		return `{"threadId":"` + threadID + `","runId":"run_1","messages":[{"id":"m1","role":"user","content":"more"}],` +
			`"tools":[],"context":[],"state":{},"forwardedProps":{}}`
	}
}

// a2aMessage returns the parameters of SendMessage.
func a2aMessage(threadID string) string {
	return `{"message":{"messageId":"m1","role":"ROLE_USER","contextId":"` + threadID + `","parts":[{"text":"more"}]}}`
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
		"GET /", "GET /:sessionId", "GET /static/*file", "GET /favicon.ico", "GET /login", // the programs of a page
		"POST /logout", "GET /a2a/:agentName/.well-known/agent-card.json",
	}, r.String())
}

// ofTarko reports whether the route belongs to Tarko's protocol, whose parameters name a session.
func (r route) ofTarko() bool { return r.ofProtocol && r.owner.Name() == "tarko" }

// refusal checks that an answer is an error in the form of the route's protocol: it has the content type and the members of
// the error that the protocol encodes. It has the code, or one that ends in it, if the protocol encodes codes.
func (r route) refusal(t *testing.T, a answer, code apierr.Code) {
	t.Helper()
	contentType, text := r.owner.EncodeError(codec.ErrorResponse{Error: apierr.New(apierr.AuthFailed, "the reason"), At: time.Now()})
	if r.method == http.MethodHead { // without a body
		if a.header.Get("Content-Type") != contentType || a.body != "" || a.status < http.StatusBadRequest {
			t.Errorf("%s: got %d %q %.200s, want an error without a body", r, a.status, a.header.Get("Content-Type"), a.body)
		}
		return
	}
	if strings.HasPrefix(contentType, "text/plain") {
		if a.header.Get("Content-Type") != contentType || a.body == "" || strings.HasPrefix(a.body, "{") {
			t.Errorf("%s: got %d %q %.200s, want an error as a text", r, a.status, a.header.Get("Content-Type"), a.body)
		}
		return
	}
	var want, got map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatalf("the errors of %s are not JSON objects: %s", r.owner.Name(), text)
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.header.Get("Content-Type") != contentType {
		t.Errorf("%s: got %d %q %.200s, want an error as %s %s", r, a.status, a.header.Get("Content-Type"), a.body, contentType, text)
		return
	}
	for member := range want {
		if _, ok := got[member]; !ok {
			t.Errorf("%s: got %d %.200s, want the members of %s", r, a.status, a.body, text)
		}
	}
	if told, ok := got["code"].(string); want["code"] != nil && (!ok || !strings.HasSuffix(told, string(code))) {
		t.Errorf("%s: got %d %.200s, want the code %s", r, a.status, a.body, code)
	}
}

// takesBody reports whether the route reads what a client sends.
func (r route) takesBody() bool { return r.spec.Body }

// maxBody is the size of the largest body that the route reads.
func (r route) maxBody() int { return cmp.Or(int(r.spec.MaxBody), 512<<10) }

// streams reports whether the response of the route can be a stream, which has no end in these tests.
func (r route) streams() bool { return r.spec.Limit == protocol.StreamLimit }

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
	return strings.NewReplacer(":agentName", to.agent, ":requestId", to.requestID, ":threadId", to.threadID, ":chatId", to.threadID, ":objectId", "obj_none", ":completionId", to.requestID, ":responseId", to.requestID,
		":operation", "message:send", ":taskId", to.requestID, ":configId", "none").Replace(r.path)
}

// with is at with parameters in its URL: the session among them, where the path has no place for it.
func (r route) with(to target, parameters string) string {
	if r.ofTarko() {
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

// readAnswer reads an answer; status 0 means that the connection was closed instead.
func (w *wire) readAnswer() answer {
	w.t.Helper()
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body), err}
}
