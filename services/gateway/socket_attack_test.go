package gateway_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/coder/websocket"
)

// wsFrame is a frame of RFC 6455, as a client sends it unless it is bare of a mask.
type wsFrame struct {
	first byte // FIN, the reserved bits and the opcode
	bare  bool
	text  string
	size  uint64 // that it claims; 0 = that of text
}

func (f wsFrame) bytes() []byte {
	size := max(f.size, uint64(len(f.text)))
	mask := byte(0x80)
	if f.bare {
		mask = 0
	}
	out := binary.BigEndian.AppendUint64([]byte{f.first, mask | 127}, size)
	if !f.bare {
		out = append(out, 0, 0, 0, 0) // a mask that changes nothing
	}
	return append(out, f.text...)
}

const (
	whole     = 0x80
	opMore    = 0x0
	opText    = 0x1
	opBinary  = 0x2
	opClose   = 0x8
	opPing    = 0x9
	opPong    = 0xA
	opUnknown = 0x5
	reserved  = 0x40
)

// rough is a client that says what it likes.
type rough struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

func (b *bench) rough() *rough {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", conn.RemoteAddr())
	r := &rough{b.t, conn, bufio.NewReader(conn)}
	resp, err := http.ReadResponse(r.in, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		b.t.Fatalf("got %s, %v", resp.Status, err)
	}
	return r
}

// send sends frames. That it cannot any more is for who reads.
func (r *rough) send(frames ...wsFrame) {
	for _, f := range frames {
		_, _ = r.conn.Write(f.bytes())
	}
}

// next reads a frame of the server.
func (r *rough) next() (op byte, text []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return 0, nil, err
	}
	size := uint64(head[1])
	switch size {
	case 126:
		var more [2]byte
		_, err = io.ReadFull(r.in, more[:])
		size = uint64(binary.BigEndian.Uint16(more[:]))
	case 127:
		var more [8]byte
		_, err = io.ReadFull(r.in, more[:])
		size = binary.BigEndian.Uint64(more[:])
	}
	if err != nil || size > 1<<20 {
		return 0, nil, fmt.Errorf("a frame of %d bytes: %w", size, err)
	}
	text = make([]byte, size)
	_, err = io.ReadFull(r.in, text)
	return head[0] & 0xf, text, err
}

// code reads up to the close frame; 0 = there was none.
func (r *rough) code() websocket.StatusCode {
	for {
		op, text, err := r.next()
		if err != nil {
			return 0
		}
		if op == opClose && len(text) >= 2 {
			return websocket.StatusCode(binary.BigEndian.Uint16(text))
		}
	}
}

func TestSocketHostileFrames(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.MaxBody = 1000 })
	ping := `{"type":"ping"}`
	tests := []struct {
		what   string
		frames []wsFrame
		want   websocket.StatusCode
	}{
		{"a binary message", []wsFrame{{first: whole | opBinary, text: ping}}, 1003},
		{"a text that is not UTF-8", []wsFrame{{first: whole | opText, text: "\xff\xfe"}}, 1007},
		{"a message that is too large", []wsFrame{{first: whole | opText, text: strings.Repeat(" ", 1001)}}, 1009},
		{"one that says so and stops", []wsFrame{{first: whole | opText, size: 1 << 62, text: strings.Repeat(" ", 1001)}}, 1009},
		{"one that is too large in parts", []wsFrame{
			{first: opText, text: strings.Repeat(" ", 600)}, {first: opMore, text: strings.Repeat(" ", 600)}}, 1009},
		{"an unmasked frame", []wsFrame{{first: whole | opText, bare: true, text: ping}}, 1002},
		{"a reserved bit", []wsFrame{{first: whole | reserved | opText, text: ping}}, 1002},
		{"an opcode that there is not", []wsFrame{{first: whole | opUnknown, text: ping}}, 1002},
		{"a continuation of nothing", []wsFrame{{first: whole | opMore, text: ping}}, 1002},
		{"a message within a message", []wsFrame{{first: opText, text: "{"}, {first: whole | opText, text: ping}}, 1002},
		{"a ping in parts", []wsFrame{{first: opPing, text: "x"}}, 1002},
		{"a ping that is too large", []wsFrame{{first: whole | opPing, text: strings.Repeat("x", 126)}}, 1002},
		{"a close with half a code", []wsFrame{{first: whole | opClose, text: "x"}}, 1002},
		{"a flood of pings", manyFrames(wsFrame{first: whole | opPing, text: "x"}), 1008},
		{"a flood of pongs", manyFrames(wsFrame{first: whole | opPong, text: "x"}), 1008},
		{"a good bye", []wsFrame{{first: whole | opClose, text: "\x03\xe8"}}, 1000},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			r := b.rough()
			r.send(test.frames...)
			if got := r.code(); got != test.want {
				t.Errorf("closed with %d, want %d", got, test.want)
			}
		})
	}
}

func manyFrames(f wsFrame) []wsFrame {
	all := make([]wsFrame, 200)
	for i := range all {
		all[i] = f
	}
	return all
}

// TestSocketRejectsPartialMessage sends a message in parts that never end, and one that stops.
func TestSocketRejectsPartialMessage(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.Limits.BodyTime = config.Duration(300 * time.Millisecond) })
	stalled := b.rough()
	stalled.send(wsFrame{first: opText, text: `{"type":`})
	if got := stalled.code(); got != websocket.StatusPolicyViolation {
		t.Errorf("a message that stops: closed with %d, want 1008", got)
	}
	endless := b.rough()
	ended := make(chan websocket.StatusCode, 1)
	go func() { ended <- endless.code() }()
	endless.send(wsFrame{first: opText, text: `{`})
	for len(ended) == 0 {
		endless.send(wsFrame{first: opMore})
	}
	if got := <-ended; got != websocket.StatusPolicyViolation && got != 0 { // 0: it sent during the close
		t.Errorf("a message without an end: closed with %d, want 1008", got)
	}
}

// TestSocketHostileMessages sends invalid messages: each gets an error, and the connection stays open.
func TestSocketHostileMessages(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.session()
	p := b.dial("")
	tests := []struct{ what, text, code, says string }{
		{"no JSON", `hello`, "invalid_message_format", "must be a JSON object"},
		{"half of it", `{"type":"ping"`, "invalid_message_format", "not valid JSON"},
		{"a list", `[{"type":"ping"}]`, "invalid_message_format", "must be a JSON object"},
		{"nothing", ``, "invalid_message_format", "must be a JSON object"},
		{"a name twice", `{"type":"ping","type":"join_session"}`, "invalid_message_format", "not valid JSON"},
		{"two messages in one", `{"type":"ping"}{"type":"ping"}`, "invalid_message_format", "not valid JSON"},
		{"an invalid type", `{"type":"shutdown"}`, "invalid_message_format", "join_session, leave_session, send_query, abort_query or ping"},
		{"a long type", `{"type":"` + strings.Repeat("x", 5000) + `"}`, "invalid_message_format", "use join_session"},
		{"no type", `{}`, "invalid_message_format", "use join_session"},
		{"a type that is a number", `{"type":7}`, "invalid_message_format", "type has the wrong type"},
		{"deep", strings.Repeat(`{"a":`, 20000) + `1` + strings.Repeat(`}`, 20000), "invalid_message_format", "not valid JSON"},
		{"no session", `{"type":"join_session"}`, "invalid_message_format", "Session ID is required"},
		{"a session that is not there", `{"type":"join_session","sessionId":"thr_none"}`, "thread_not_found", "Session not found"},
		{"one that would be two tokens", `{"type":"join_session","sessionId":"a.>"}`, "thread_not_found", "Session not found"},
		{"an invalid cursor", `{"type":"join_session","sessionId":"` + id + `","after":"x"}`, "invalid_message_format", "must be one that"},
		{"to leave nothing", `{"type":"leave_session"}`, "invalid_message_format", "Session ID is required"},
		{"to abort nothing", `{"type":"abort_query","sessionId":"thr_none"}`, "thread_not_found", "Session not found"},
		{"no query", `{"type":"send_query","sessionId":"` + id + `"}`, "invalid_message_format", "Query is required"},
		{"a query that is a number", `{"type":"send_query","sessionId":"` + id + `","query":7}`, "invalid_message_format", "query has the wrong type"},
	}
	for _, test := range tests {
		p.say(test.text)
		m := p.readAnswer()
		if said, _ := m.Data["error"].(string); m.Type != "error" || m.Data["code"] != test.code || !strings.Contains(said, test.says) || len(said) > 500 {
			t.Errorf("%s: got %+v, want %s that says %q", test.what, m, test.code, test.says)
		}
	}
	p.say(`{"type":"ping","more":1}`)
	if m := p.readAnswer(); m.Type != "pong" {
		t.Errorf("after all that: got %+v", m)
	}
}

func TestSocketSessionsOfAConnectionAreBounded(t *testing.T) {
	t.Parallel()
	b := start(t)
	p := b.dial("")
	for range 32 {
		p.join(b.session(), "")
	}
	p.say(`{"type":"join_session","sessionId":"` + b.session() + `"}`)
	if m := p.readAnswer(); m.Data["code"] != "rate_limit_exceeded" {
		t.Errorf("got %+v", m)
	}
}

func TestSocketMessagesAreCountedAsRequests(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		d.Config.Gateway.RateLimit = config.Rate{Requests: 5, Per: config.Duration(time.Hour), Burst: 5}
	})
	p := b.dial("") // the first of five
	for range 4 {
		p.say(`{"type":"ping"}`)
		if m := p.readAnswer(); m.Type != "pong" {
			t.Fatalf("got %+v", m)
		}
	}
	p.say(`{"type":"ping"}`)
	if m := p.readAnswer(); m.Data["code"] != "rate_limit_exceeded" || m.Data["retryAfterMs"] == nil {
		t.Errorf("got %+v", m)
	}
	for range 20 { // the client continues nevertheless
		p.say(`{"type":"ping"}`)
	}
	if bye := p.closed(); bye.Code != websocket.StatusPolicyViolation {
		t.Errorf("got %v, want 1008", bye)
	}
}

func TestSocketHandshakesThatAreRefused(t *testing.T) {
	t.Parallel()
	const friend, stranger = "https://app.example.com", "https://app.example.com.evil.com"
	b := start(t, withKeys, func(d *gateway.Deps) { d.Config.Gateway.CORS = []string{friend} })
	key, _ := b.key("acme", "alice")
	runner, _ := b.key("acme", "bob", auth.ScopeRun)
	bearer := []string{"Authorization", "Bearer " + key}
	tests := []struct {
		what      string
		query     string
		protocols []string
		headers   []string
		status    int
	}{
		{"a key", "", nil, bearer, 101},
		{"a page's key", "", []string{"bearer", key}, nil, 101},
		{"a friend's page", "", []string{"bearer", key}, []string{"Origin", friend, "Sec-Fetch-Site", "cross-site"}, 101},
		{"the gateway's own page", "", []string{"bearer", key}, []string{"Origin", b.server.URL}, 101},
		{"a stranger's page", "", []string{"bearer", key}, []string{"Origin", stranger}, 403},
		{"a friend's page without its s", "", []string{"bearer", key}, []string{"Origin", "http://app.example.com"}, 403},
		{"the gateway's own host by https", "", []string{"bearer", key}, []string{"Origin", strings.Replace(b.server.URL, "http:", "https:", 1)}, 403},
		{"a page of nowhere", "", []string{"bearer", key}, []string{"Origin", "null"}, 403},
		{"no key", "", nil, nil, 401},
		{"a wrong key", "", []string{"bearer", "ak_a_b"}, nil, 401},
		{"a key in the URL", "?key=" + key, nil, nil, 401},
		{"another protocol's key", "", []string{"basic", key}, nil, 401},
		{"two keys", "", []string{"bearer", key}, bearer, 401},
		{"a key that may not read", "", []string{"bearer", runner}, nil, 401},
		{"an invalid format", "?format=xml", nil, bearer, 400},
	}
	for _, test := range tests {
		p, a := b.tryDial(test.query, test.protocols, test.headers...)
		if a.status != test.status || (p != nil) != (test.status == 101) {
			t.Errorf("%s: got %+v, want %d", test.what, a, test.status)
			continue
		}
		if p != nil && len(test.protocols) > 0 && p.conn.Subprotocol() != "bearer" {
			t.Errorf("%s: agreed to %q", test.what, p.conn.Subprotocol())
		}
		if p == nil && !strings.HasPrefix(a.body, `{"error":"`) {
			t.Errorf("%s: got %s", test.what, a.body)
		}
	}
	a := b.get("/ws", bearer...)
	if a.status != http.StatusUpgradeRequired || a.header.Get("Upgrade") != "websocket" || !strings.Contains(a.body, `"error":"this is a WebSocket`) {
		t.Errorf("no WebSocket: got %d %s", a.status, a.body)
	}
}

func TestSocketOwnership(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	alice, _ := b.key("acme", "alice")
	bob, _ := b.key("acme", "bob")
	carol, _ := b.key("globex", "alice")
	reader, _ := b.key("acme", "alice", auth.ScopeRead)
	id := b.session("Authorization", "Bearer "+alice)
	for _, test := range []struct{ who, key, code, says string }{
		{"another owner", bob, "thread_access_denied", "the thread belongs to another user"},
		{"another tenant", carol, "thread_not_found", "Session not found"},
		{"a key that may only read", reader, "auth_failed", "scope"},
	} {
		p := b.dial("", "Authorization", "Bearer "+test.key)
		for _, kind := range []string{"join_session", "send_query", "abort_query"} {
			p.say(`{"type":"` + kind + `","sessionId":"` + id + `","query":"hi"}`)
			m := p.readAnswer()
			if test.key == reader && kind == "join_session" {
				if m.Type != "joined" {
					t.Errorf("%s: got %+v", test.who, m)
				}
				continue
			}
			if said, _ := m.Data["error"].(string); m.Type != "error" || m.Data["code"] != test.code || !strings.Contains(said, test.says) {
				t.Errorf("%s of %s: got %+v", kind, test.who, m)
			}
		}
	}
}

func TestSocketOfAKeyThatOpensNothingMoreIsClosed(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	revoked, record := b.key("acme", "alice")
	p := b.dial("", "Authorization", "Bearer "+revoked)
	p.join(b.session("Authorization", "Bearer "+revoked), "")
	record.Revoked = true
	if err := b.bus.PutKey(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if bye := p.closed(); bye.Code != websocket.StatusPolicyViolation || !strings.Contains(bye.Reason, "revoked") {
		t.Errorf("a revoked key: got %v", bye)
	}
	expired, record := b.key("acme", "bob")
	p = b.dial("", "Authorization", "Bearer "+expired)
	record.ExpiresAt = time.Now().Add(-time.Second)
	if err := b.bus.PutKey(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	b.eventually("the gateway knows", func() bool { return b.get("/v1/agents", "Authorization", "Bearer "+expired).status == 401 })
	p.say(`{"type":"ping"}`)
	if bye := p.closed(); bye.Code != websocket.StatusPolicyViolation || !strings.Contains(bye.Reason, "expired") {
		t.Errorf("an expired key: got %v", bye)
	}
}

// TestSocketHeartbeatsLookAtTheKey lets a key expire while its client says nothing.
func TestSocketHeartbeatsLookAtTheKey(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys, func(d *gateway.Deps) { d.Config.Gateway.Heartbeat = config.Duration(50 * time.Millisecond) })
	key, record := b.key("acme", "alice")
	p := b.dial("", "Authorization", "Bearer "+key)
	p.join(b.session("Authorization", "Bearer "+key), "")
	record.ExpiresAt = time.Now().Add(200 * time.Millisecond)
	if err := b.bus.PutKey(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if bye := p.closed(); bye.Code != websocket.StatusPolicyViolation || !strings.Contains(bye.Reason, "expired") {
		t.Errorf("got %v", bye)
	}
}
