package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
)

// control is a message of the native WebSocket that is not an event.
type control struct {
	Type         string      `json:"type"`
	ID           string      `json:"id"`
	RequestID    string      `json:"requestId"`
	ThreadID     string      `json:"threadId"`
	Cursor       string      `json:"cursor"`
	Status       string      `json:"status"`
	SteerID      string      `json:"steerId"`
	Reset        bool        `json:"reset"`
	Replayed     bool        `json:"replayed"`
	RetryAfterMs int64       `json:"retryAfterMs"`
	Error        nativeError `json:"error"`
}

type nativeError struct {
	Event     string      `json:"event"`
	Code      apierr.Code `json:"code"`
	Message   string      `json:"message"`
	RequestID string      `json:"requestId"`
}

// native connects to the WebSocket of the native protocol.
func (b *bench) native(headers ...string) *peer {
	b.t.Helper()
	p, a := b.tryDialAt("/v1/ws", nil, headers...)
	if p == nil {
		b.t.Fatalf("connect: %+v", a)
	}
	p.conn.SetReadLimit(1 << 20)
	return p
}

// control reads the next message, which must not be an event.
func (p *peer) control() control {
	p.t.Helper()
	text, err := p.raw()
	var c control
	if err != nil || json.Unmarshal(text, &c) != nil || c.Type == "" {
		p.t.Fatalf("got %s, %v, want a reply, error or end", text, err)
	}
	return c
}

// exchange sends a message and returns the reply, which must repeat the id.
func (p *peer) exchange(text string) control {
	p.t.Helper()
	p.say(strings.Replace(text, "{", `{"id":"m1",`, 1))
	c := p.control()
	if c.ID != "m1" {
		p.t.Fatalf("%s: got %+v, want the id m1", text, c)
	}
	return c
}

// follows sends a message that must get a reply.
func (p *peer) follows(text string) control {
	p.t.Helper()
	c := p.exchange(text)
	if c.Type != "reply" {
		p.t.Fatalf("%s: got %+v, want a reply", text, c)
	}
	return c
}

// events reads events up to the end of their target.
func (p *peer) events() (lines []string, ended control) {
	p.t.Helper()
	for {
		text, err := p.raw()
		if err != nil {
			p.t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), `{"type":`) {
			lines = append(lines, string(text))
			continue
		}
		if err := json.Unmarshal(text, &ended); err != nil || ended.Type != "end" {
			p.t.Fatalf("got %s, %v, want an end", text, err)
		}
		return lines, ended
	}
}

// some reads n events.
func (p *peer) some(n int) []string {
	p.t.Helper()
	lines := make([]string, n)
	for i := range lines {
		text, err := p.raw()
		if err != nil || !strings.HasPrefix(string(text), `{"event":`) {
			p.t.Fatalf("event %d: got %s, %v", i, text, err)
		}
		lines[i] = string(text)
	}
	return lines
}

// data lists the data of the server-sent events of a path.
func (b *bench) data(path string) []string {
	b.t.Helper()
	events, _, err := sse.Parse([]byte(b.get(path).body))
	if err != nil {
		b.t.Fatal(err)
	}
	lines := make([]string, len(events))
	for i, e := range events {
		lines[i] = string(e.Data)
	}
	return lines
}

func eventID(t *testing.T, line string) string {
	t.Helper()
	var e struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(line), &e); err != nil || e.ID == "" {
		t.Fatalf("%s: %v", line, err)
	}
	return e.ID
}

func TestNativeSocketSendsTheDataOfServerSentEvents(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	p := b.native()
	p.follows(`{"type":"follow","requestId":"` + requestID + `"}`)
	b.run(requestID, input("hi"), metadata(), delta("a"), delta("b\u2028\n\nevent: done\ndata: {}"), done())
	got, ended := p.events()
	if want := b.data("/v1/requests/" + requestID + "/stream"); !slices.Equal(got, want) || len(got) != 4 {
		t.Errorf("got %q, want %q", got, want)
	}
	if ended.RequestID != requestID || ended.Error.Code != "" {
		t.Errorf("got %+v", ended)
	}
	p.follows(`{"type":"follow","requestId":"` + requestID + `","include":["extended"]}`)
	got, _ = p.events()
	if want := b.data("/v1/requests/" + requestID + "/stream?include=extended"); !slices.Equal(got, want) || len(got) != 6 {
		t.Errorf("extended: got %q, want %q", got, want)
	}
}

func TestNativeSocketResumesAfterEachEvent(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	b.run(requestID, input("hi"), metadata(), delta("a"), done())
	second, _ := b.accepted(onThread(threadID))
	b.run(second, input("more"), metadata(), delta("b"), done())
	p := b.native()
	if c := p.follows(`{"type":"follow","threadId":"` + threadID + `","after":"0"}`); c.Cursor != "0" || c.ThreadID != threadID {
		t.Errorf("got %+v", c)
	}
	whole := p.some(8)
	for i, line := range whole {
		of := requestID
		if i >= 4 {
			of = second
		}
		after := `,"requestId":"` + of + `","after":"` + eventID(t, line) + `"}`
		if c := p.follows(`{"type":"follow","threadId":"` + threadID + `"` + after); c.Reset || c.RequestID != "" {
			t.Errorf("thread after event %d: got %+v", i, c)
		}
		if got := p.some(len(whole) - i - 1); !slices.Equal(got, whole[i+1:]) {
			t.Errorf("thread after event %d: got %q", i, got)
		}
		p.follows(`{"type":"follow","include":["input"]` + after)
		if got, _ := p.events(); !slices.Equal(got, whole[i+1:i+1+3-i%4]) {
			t.Errorf("request after event %d: got %q", i, got)
		}
	}
	if c := p.follows(`{"type":"follow","requestId":"` + requestID + `","after":"zzzz-1"}`); !c.Reset {
		t.Errorf("a cursor of another log: got %+v", c)
	}
	p.events()
	c := p.follows(`{"type":"follow","threadId":"` + threadID + `","requestId":"req_other","after":"zzzz-1"}`)
	if got := p.some(8); !c.Reset || c.Cursor != "0" || !slices.Equal(got, whole) {
		t.Errorf("a request of another thread: got %+v %q", c, got)
	}
}

func TestNativeSocketFollowsAThread(t *testing.T) {
	t.Parallel()
	b := start(t)
	first, threadID := b.accepted(hello)
	b.run(first, input("hi"), metadata(), done())
	p := b.native()
	resume := p.follows(`{"type":"follow","threadId":"` + threadID + `"}`).Cursor
	second, _ := b.accepted(onThread(threadID))
	b.run(second, input("more"), metadata(), done())
	seen := p.some(3)
	if !strings.HasPrefix(seen[0], `{"event":"input"`) || !strings.Contains(seen[0], second) {
		t.Errorf("got %q", seen)
	}
	if c := p.follows(`{"type":"unfollow","threadId":"` + threadID + `"}`); c.ThreadID != threadID {
		t.Errorf("got %+v", c)
	}
	third, _ := b.accepted(onThread(threadID))
	b.run(third, input("more"), metadata(), done())
	p.follows(`{"type":"follow","threadId":"` + threadID + `","after":"` + resume + `"}`)
	if got := p.some(6); !slices.Equal(got[:3], seen) || !strings.Contains(got[3], third) {
		t.Errorf("after %s: got %q", resume, got)
	}
	if a := b.do(b.request(http.MethodDelete, "/v1/threads/"+threadID, "")); a.status >= 300 {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if c := p.control(); c.Type != "end" || c.ThreadID != threadID || c.Error.Code != "" {
		t.Errorf("deleted: got %+v", c)
	}
}

func TestNativeSocketStartsSteersAndAborts(t *testing.T) {
	t.Parallel()
	b := start(t)
	p := b.native()
	begin := `{"type":"start","agent":"demo","request":` + hello + `,"idempotencyKey":"k1"}`
	made := p.follows(begin)
	if made.RequestID == "" || made.ThreadID == "" || made.Status != "queued" || made.Replayed {
		t.Fatalf("got %+v", made)
	}
	w := b.claim(made.RequestID)
	b.emit(w, input("hi"), metadata())
	first := p.some(1)
	if again := p.follows(begin); !again.Replayed || again.RequestID != made.RequestID {
		t.Errorf("the same key: got %+v", again)
	}
	if got := p.some(1); got[0] != first[0] {
		t.Errorf("the same key: got %q, want %q", got, first)
	}
	if c := p.exchange(strings.Replace(begin, "hi", "ho", 1)); c.Error.Code != apierr.IdempotencyMismatch {
		t.Errorf("another body: got %+v", c)
	}
	say := `{"type":"steer","requestId":"` + made.RequestID + `","request":` + steer("faster") + `,"idempotencyKey":"s1"}`
	said := p.follows(say)
	if again := p.follows(say); said.SteerID == "" || again.SteerID != said.SteerID || !again.Replayed {
		t.Errorf("got %+v and %+v", said, again)
	}
	if got := b.steers(made.RequestID); len(got) != 1 || got[0].SteerID != said.SteerID {
		t.Errorf("got %+v", got)
	}
	if c := p.follows(`{"type":"abort","requestId":"` + made.RequestID + `","reason":"enough"}`); c.Status != "aborting" {
		t.Errorf("got %+v", c)
	}
	if r, err := b.bus.Aborted(t.Context(), b.log(made.RequestID)); err != nil || r.Reason != "enough" {
		t.Errorf("got %+v, %v", r, err)
	}
	b.emit(w, event.Aborted{ThreadID: made.ThreadID, Reason: "enough"})
	if got, _ := p.events(); len(got) != 1 || !strings.HasPrefix(got[0], `{"event":"aborted"`) {
		t.Errorf("got %q", got)
	}
	if c := p.exchange(`{"type":"abort","requestId":"` + made.RequestID + `"}`); c.Error.Code != apierr.RequestFinished {
		t.Errorf("after the end: got %+v", c)
	}
}

func TestAnIdempotencyKeyCountsForTheSocketAndTheRoutes(t *testing.T) {
	t.Parallel()
	b := start(t)
	p := b.native()
	start := func(key, request string) string {
		return `{"type":"start","agent":"demo","request":` + request + `,"idempotencyKey":"` + key + `"}`
	}
	posted := b.post("/v1/agents/demo/requests", hello, "Idempotency-Key", "k1")
	again := p.follows(start("k1", hello))
	if !again.Replayed || again.RequestID != posted.header.Get("X-Request-Id") {
		t.Errorf("start after POST: got %+v, want the request %s", again, posted.header.Get("X-Request-Id"))
	}
	started := p.follows(start("k2", hello))
	repeated := b.post("/v1/agents/demo/requests", hello, "Idempotency-Key", "k2")
	if repeated.header.Get("Idempotency-Replayed") != "true" || repeated.header.Get("X-Request-Id") != started.RequestID {
		t.Errorf("POST after start: got %d %s, want the request %s", repeated.status, repeated.body, started.RequestID)
	}
	if other := p.exchange(start("k1", `{"messages":[{"role":"user","content":"ho"}]}`)); other.Error.Code != apierr.IdempotencyMismatch {
		t.Errorf("another request with the key: got %+v, want idempotency_mismatch", other)
	}
}

func TestNativeSocketOwnership(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	alice, _ := b.key("acme", "alice")
	bob, _ := b.key("acme", "bob")
	carol, _ := b.key("globex", "alice")
	reader, _ := b.key("acme", "alice", auth.ScopeRead)
	made := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+alice)
	requestID, threadID := made.header.Get("X-Request-Id"), made.header.Get("X-Thread-Id")
	messages := []string{
		`{"type":"follow","requestId":"` + requestID + `"}`,
		`{"type":"follow","threadId":"` + threadID + `"}`,
		`{"type":"follow","threadId":"` + threadID + `","requestId":"` + requestID + `","after":"k-1"}`,
		`{"type":"start","agent":"demo","request":` + onThread(threadID) + `}`,
		`{"type":"steer","requestId":"` + requestID + `","request":` + hello + `}`,
		`{"type":"abort","requestId":"` + requestID + `"}`,
	}
	for _, test := range []struct {
		who, key string
		code     apierr.Code
	}{
		{"another owner", bob, apierr.ThreadAccessDenied},
		{"another tenant", carol, "_not_found"},
		{"a key that may only read", reader, apierr.AuthFailed},
	} {
		p := b.native("Authorization", "Bearer "+test.key)
		for _, message := range messages {
			c := p.exchange(message)
			if test.key == reader && strings.Contains(message, "follow") {
				if c.Type != "reply" {
					t.Errorf("%s: %s: got %+v, want a reply", test.who, message, c)
				}
				continue
			}
			if c.Type != "error" || c.Error.Event != "error" || !strings.HasSuffix(string(c.Error.Code), string(test.code)) {
				t.Errorf("%s: %s: got %+v, want %s", test.who, message, c, test.code)
			}
		}
	}
}

func TestNativeSocketRefusesHandshakes(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	key, _ := b.key("acme", "alice")
	runner, _ := b.key("acme", "bob", auth.ScopeRun)
	for _, test := range []struct {
		what      string
		protocols []string
		headers   []string
		status    int
	}{
		{"a key", nil, []string{"Authorization", "Bearer " + key}, 101},
		{"a page's key", []string{"bearer", key}, []string{"Origin", b.server.URL}, 101},
		{"a page of another origin", []string{"bearer", key}, []string{"Origin", "https://evil.example"}, 403},
		{"no key", nil, nil, 401},
		{"a key that may not read", []string{"bearer", runner}, nil, 401},
	} {
		p, a := b.tryDialAt("/v1/ws", test.protocols, test.headers...)
		if a.status != test.status || (p != nil) != (test.status == 101) {
			t.Errorf("%s: got %+v, want %d", test.what, a, test.status)
		} else if p == nil && !strings.HasPrefix(a.body, `{"event":"error"`) {
			t.Errorf("%s: got %s", test.what, a.body)
		}
	}
	a := b.get("/v1/ws", "Authorization", "Bearer "+key)
	if a.status != http.StatusUpgradeRequired || a.failure(t).Code != apierr.InvalidMessageFormat {
		t.Errorf("no WebSocket: got %d %s", a.status, a.body)
	}
}

// TestNativeSocketHostileMessages sends invalid messages: each gets an error, and the connection stays open.
func TestNativeSocketHostileMessages(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	p := b.native()
	tests := []struct {
		what, text string
		code       apierr.Code
		says       string
	}{
		{"no JSON", `hello`, apierr.InvalidMessageFormat, "must be a JSON object"},
		{"nothing", ``, apierr.InvalidMessageFormat, "must be a JSON object"},
		{"half of it", `{"type":"follow"`, apierr.InvalidMessageFormat, "not valid JSON"},
		{"two in one", `{"type":"follow"}{}`, apierr.InvalidMessageFormat, "not valid JSON"},
		{"a name twice", `{"type":"follow","type":"abort"}`, apierr.InvalidMessageFormat, "type appears twice"},
		{"no type", `{}`, apierr.InvalidMessageFormat, "use follow, unfollow"},
		{"an unknown type", `{"type":"` + strings.Repeat("x", 5000) + `"}`, apierr.InvalidMessageFormat, "use follow, unfollow"},
		{"a type that is a number", `{"type":7}`, apierr.InvalidMessageFormat, "type must not be a JSON number"},
		{"an id that is a number", `{"type":"follow","id":7}`, apierr.InvalidMessageFormat, "id must not be a JSON number"},
		{"a long id", `{"type":"follow","id":"` + strings.Repeat("x", 129) + `"}`, apierr.InvalidMessageFormat, "id is longer"},
		{"deep", `{"type":` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + `}`, apierr.InvalidMessageFormat, "nested"},
		{"a member of another type", `{"type":"abort","requestId":"r","after":"x"}`, apierr.InvalidMessageFormat, "after is not a member of a message of type abort"},
		{"another case", `{"type":"follow","requestID":"r"}`, apierr.InvalidMessageFormat, "requestID is not a member"},
		{"no target", `{"type":"follow"}`, apierr.InvalidMessageFormat, "requestId is missing"},
		{"no request", `{"type":"follow","requestId":"req_none"}`, apierr.RequestNotFound, ""},
		{"a request of two tokens", `{"type":"follow","requestId":"a.>"}`, apierr.RequestNotFound, ""},
		{"a thread of two tokens", `{"type":"follow","threadId":"a.>"}`, apierr.ThreadNotFound, ""},
		{"an invalid cursor", `{"type":"follow","requestId":"` + requestID + `","after":"x"}`, apierr.InvalidMessageFormat, "must be one that"},
		{"one of an invalid thread", `{"type":"follow","threadId":"` + threadID + `","after":"x"}`, apierr.InvalidMessageFormat, "must be one that"},
		{"an invalid event", `{"type":"follow","threadId":"` + threadID + `","requestId":"` + requestID + `","after":"x"}`,
			apierr.InvalidMessageFormat, "after must be the id of an event"},
		{"a request without an event", `{"type":"follow","threadId":"t","requestId":"r"}`, apierr.InvalidMessageFormat, "after is missing"},
		{"an unknown event", `{"type":"follow","requestId":"` + requestID + `","include":["none"]}`, apierr.InvalidMessageFormat, "include=none"},
		{"output that the agent does not show", `{"type":"follow","requestId":"` + requestID + `","include":["tool_output"]}`,
			apierr.InvalidMessageFormat, "does not show the output"},
		{"many events", `{"type":"follow","requestId":"` + requestID + `","include":["input"` + strings.Repeat(`,"input"`, 64) + `]}`,
			apierr.InvalidMessageFormat, "more than 64"},
		{"to unfollow nothing", `{"type":"unfollow"}`, apierr.InvalidMessageFormat, "either the requestId or the threadId"},
		{"an unknown agent", `{"type":"start","agent":"none","request":` + hello + `}`, apierr.AgentNotFound, ""},
		{"a start without a request", `{"type":"start","agent":"demo"}`, apierr.InvalidMessageFormat, "request: the body must be"},
		{"a start with an empty request", `{"type":"start","agent":"demo","request":{"messages":[]}}`, apierr.InvalidMessageFormat, "messages is empty"},
		{"a start with unknown events", `{"type":"start","agent":"demo","request":` + hello + `,"include":["x"]}`, apierr.InvalidMessageFormat, "include=x"},
		{"a long key", `{"type":"start","agent":"demo","request":` + hello + `,"idempotencyKey":"` + strings.Repeat("k", 256) + `"}`,
			apierr.InvalidMessageFormat, "idempotencyKey is longer"},
		{"a steer with a context", `{"type":"steer","requestId":"` + requestID + `","request":{"messages":[{"role":"user","content":"a"}],"context":{"a":1}}}`,
			apierr.InvalidMessageFormat, "a steer has messages and nothing else"},
		{"a steer with a long key", `{"type":"steer","requestId":"` + requestID + `","request":` + hello + `,"idempotencyKey":"` + strings.Repeat("k", 256) + `"}`,
			apierr.InvalidMessageFormat, "idempotencyKey is longer"},
		{"a long reason", `{"type":"abort","requestId":"` + requestID + `","reason":"` + strings.Repeat("x", 1001) + `"}`,
			apierr.InvalidMessageFormat, "reason is longer"},
		{"to abort nothing", `{"type":"abort"}`, apierr.RequestNotFound, ""},
	}
	for _, test := range tests {
		p.say(test.text)
		c := p.control()
		if c.Type != "error" || c.Error.Code != test.code || !strings.Contains(c.Error.Message, test.says) || len(c.Error.Message) > 500 {
			t.Errorf("%s: got %+v, want %s that says %q", test.what, c, test.code, test.says)
		}
	}
	p.follows(`{"type":"follow","requestId":"` + requestID + `"}`)
	b.run(requestID, metadata(), done())
	if got, _ := p.events(); len(got) != 2 {
		t.Errorf("after all that: got %q", got)
	}
}

func TestNativeSocketLimits(t *testing.T) {
	t.Parallel()
	b := start(t)
	p := b.native()
	first := ""
	for i := range 32 {
		requestID, _ := b.accepted(hello)
		p.follows(`{"type":"follow","requestId":"` + requestID + `"}`)
		if i == 0 {
			first = requestID
		}
	}
	requestID, _ := b.accepted(hello)
	for _, message := range []string{
		`{"type":"follow","requestId":"` + requestID + `"}`, `{"type":"start","agent":"demo","request":` + hello + `}`,
	} {
		if c := p.exchange(message); c.Error.Code != apierr.RateLimitExceeded {
			t.Errorf("%s: got %+v", message, c)
		}
	}
	p.follows(`{"type":"follow","requestId":"` + first + `"}`) // replaces its own
	p.follows(`{"type":"unfollow","requestId":"` + first + `"}`)
	p.follows(`{"type":"follow","requestId":"` + requestID + `"}`)
}

func TestNativeSocketMessagesCountAsRequests(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		d.Config.Gateway.RateLimit = config.Rate{Requests: 2, Per: config.Duration(time.Hour), Burst: 2}
	})
	p := b.native() // the first of two
	message := `{"type":"unfollow","requestId":"r"}`
	p.follows(message)
	if c := p.exchange(message); c.Error.Code != apierr.RateLimitExceeded || c.RetryAfterMs == 0 {
		t.Errorf("got %+v", c)
	}
	for range 20 {
		p.say(message)
	}
	if bye := p.closed(); bye.Code != websocket.StatusPolicyViolation {
		t.Errorf("got %v, want 1008", bye)
	}
}

func TestNativeSocketEndsWithItsKey(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys, func(d *gateway.Deps) { d.Config.Gateway.Heartbeat = config.Duration(50 * time.Millisecond) })
	for what, change := range map[string]func(*bus.KeyRecord){
		"revoked": func(k *bus.KeyRecord) { k.Revoked = true },
		"expired": func(k *bus.KeyRecord) { k.ExpiresAt = time.Now().Add(200 * time.Millisecond) },
	} {
		key, record := b.key("acme", "alice")
		bearer := []string{"Authorization", "Bearer " + key}
		made := b.post("/v1/agents/demo/requests", hello, bearer...)
		p := b.native(bearer...)
		p.follows(`{"type":"follow","requestId":"` + made.header.Get("X-Request-Id") + `"}`)
		change(&record)
		if err := b.bus.PutKey(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if bye := p.closed(); bye.Code != websocket.StatusPolicyViolation || !strings.Contains(bye.Reason, what) {
			t.Errorf("%s: got %v", what, bye)
		}
	}
}

// TestNativeSocketThatReadsNothingIsClosed lets a client read nothing until the gateway closes its connection: then its stream
// is free, and another client has all events.
func TestNativeSocketThatReadsNothingIsClosed(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		d.Config.Gateway.Limits.SendTime, d.Config.Gateway.Limits.Streams = config.Duration(300*time.Millisecond), 1
	})
	requestID, _ := b.accepted(hello)
	deaf := b.native()
	deaf.follows(`{"type":"follow","requestId":"` + requestID + `"}`)
	w := b.claim(requestID)
	b.emit(w, metadata())
	chunk := strings.Repeat("x", 200<<10)
	for range 100 {
		b.emit(w, delta(chunk))
	}
	b.emit(w, done())
	var quick *peer
	b.eventually("the stream is free", func() bool {
		quick, _ = b.tryDialAt("/v1/ws", nil)
		return quick != nil
	})
	quick.conn.SetReadLimit(1 << 20)
	quick.follows(`{"type":"follow","requestId":"` + requestID + `"}`)
	if got, _ := quick.events(); len(got) != 102 {
		t.Errorf("got %d events, want 102", len(got))
	}
	for {
		text, err := deaf.raw()
		if err != nil {
			return
		}
		if strings.HasPrefix(string(text), `{"event":"done"`) {
			t.Fatal("a client that read nothing got all events")
		}
	}
}

func TestNativeSocketIdleAndDrain(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.Limits.IdleTime = config.Duration(300 * time.Millisecond) })
	requestID, _ := b.accepted(hello)
	follower, silent := b.native(), b.native()
	follower.follows(`{"type":"follow","requestId":"` + requestID + `"}`)
	if bye := silent.closed(); bye.Code != websocket.StatusGoingAway {
		t.Errorf("no message: got %v, want 1001", bye)
	}
	w := b.claim(requestID)
	b.emit(w, metadata())
	seen := follower.some(1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.gateway.Drain()
	}()
	if bye := follower.closed(); bye.Code != websocket.StatusServiceRestart {
		t.Errorf("drain: got %v, want 1012", bye)
	}
	<-ended
	b.emit(w, done())
	back := b.otherGateway().native()
	back.follows(`{"type":"follow","requestId":"` + requestID + `","after":"` + eventID(t, seen[0]) + `"}`)
	if got, _ := back.events(); len(got) != 1 || !strings.HasPrefix(got[0], `{"event":"done"`) {
		t.Errorf("at another gateway: got %q", got)
	}
}
