package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/services/gateway"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// overHTTP2 serves the gateway with the server of a process, and has the client use HTTP/2 alone: with TLS, or without.
func (b *bench) overHTTP2(secured bool) {
	b.t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config, server.EnableHTTP2 = b.gateway.Server(""), true
	server.Listener = b.gateway.Limit(server.Listener)
	protocols := new(http.Protocols)
	if secured {
		server.StartTLS()
		protocols.SetHTTP2(true)
		b.server = server
		transport, _ := server.Client().Transport.(*http.Transport)
		transport.Protocols = protocols
	} else {
		server.Start()
		protocols.SetUnencryptedHTTP2(true)
		b.server = server
		server.Client().Transport = &http.Transport{Protocols: protocols}
	}
	b.t.Cleanup(func() {
		server.Client().CloseIdleConnections()
		_ = server.Config.Close()
		server.Close()
	})
}

// eachHTTP2 runs a test with a gateway over TLS, and with one without.
func eachHTTP2(t *testing.T, test func(*testing.T, *bench), change ...func(*gateway.Deps)) {
	t.Parallel()
	for name, secured := range map[string]bool{"TLS": true, "without TLS": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, change...)
			b.overHTTP2(secured)
			test(t, b)
		})
	}
}

func TestHTTP2ServesEveryStreamRoute(t *testing.T) {
	eachHTTP2(t, func(t *testing.T, b *bench) {
		b.runs(metadata(), delta("hel"), delta("lo"), done())
		a := b.post("/v1/agents/demo/stream", hello)
		if a.status != http.StatusOK || a.err != nil || names(t, a.body) != steps("metadata", "text", "text", "done") {
			t.Fatalf("got %d %q %v", a.status, a.body, a.err)
		}
		if got := a.header.Get("Connection"); got != "" {
			t.Errorf("Connection: got %q, which HTTP/2 does not have", got)
		}
		path := "/v1/requests/" + a.header.Get("X-Request-Id") + "/stream"
		resp, err := b.server.Client().Do(b.request(http.MethodGet, path, ""))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Errorf("got HTTP/%d, want HTTP/2", resp.ProtoMajor)
		}
		if a := b.get(path, "Accept", "application/x-ndjson"); strings.Count(a.body, "\n") != 4 || a.err != nil {
			t.Errorf("NDJSON: got %d %q %v", a.status, a.body, a.err)
		}
		_, reader := b.open(b.request(http.MethodGet, "/v1/threads/"+a.header.Get("X-Thread-Id")+"/stream?after=0", ""))
		if _, err := reader.Next(); err != nil {
			t.Errorf("the stream of the thread: %v", err)
		}
	})
}

func TestHTTP2StreamIsResumed(t *testing.T) {
	eachHTTP2(t, func(t *testing.T, b *bench) {
		requestID, _ := b.accepted(hello)
		w := b.claim(requestID)
		b.emit(w, metadata(), delta("a"))
		path := "/v1/requests/" + requestID + "/stream"
		resp, reader := b.open(b.request(http.MethodGet, path, ""))
		e, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		b.emit(w, done())
		if a := b.get(path, "Last-Event-ID", e.ID); names(t, a.body) != steps("text", "done") || a.err != nil {
			t.Errorf("got %q %v", a.body, a.err)
		}
	})
}

func TestHTTP2ClientThatLeavesAborts(t *testing.T) {
	eachHTTP2(t, func(t *testing.T, b *bench) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		b.runs(metadata())
		resp, reader := b.open(b.request(http.MethodPost, "/v1/agents/fragile/stream", hello).WithContext(ctx))
		if _, err := reader.Next(); err != nil {
			t.Fatal(err)
		}
		requestID := resp.Header.Get("X-Request-Id")
		leave() // resets the stream; the connection stays
		b.eventually("the request is aborted", func() bool {
			_, err := b.bus.Aborted(t.Context(), b.log(requestID))
			return err == nil
		})
	}, func(d *gateway.Deps) {
		d.Config.Agents["fragile"] = config.Agent{Backend: "scripted", OnDisconnect: "abort"}
	})
}

// TestHTTP2SlowReader has a stream without a reader share its connection with others, until the gateway resets it.
func TestHTTP2SlowReader(t *testing.T) {
	eachHTTP2(t, func(t *testing.T, b *bench) {
		requestID, _ := b.accepted(hello)
		w := b.claim(requestID)
		b.emit(w, metadata())
		for range 100 { // more than the windows and buffers of a stream take
			b.emit(w, delta(strings.Repeat("x", 100<<10)))
		}
		path := "/v1/requests/" + requestID + "/stream"
		slow, _ := b.open(b.request(http.MethodGet, path, ""))
		if a := b.get("/v1/agents"); a.status != http.StatusOK {
			t.Errorf("on the same connection: got %d %v", a.status, a.err)
		}
		b.emit(w, done())
		if a := b.get(path); a.err != nil || !strings.Contains(a.body, "event: done\n") {
			t.Errorf("on the same connection: got %d bytes, %v", len(a.body), a.err)
		}
		timer := time.NewTimer(20 * time.Second)
		defer timer.Stop()
		<-timer.C // longer than a client may take nothing
		if _, err := io.Copy(io.Discard, slow.Body); err == nil {
			t.Error("a client that took nothing for 20 s got the whole stream, want it reset")
		}
		if a := b.get("/v1/agents"); a.status != http.StatusOK {
			t.Errorf("afterwards: got %d %v", a.status, a.err)
		}
	})
}

// TestHTTP2DrainSendsGoAway ends the streams as with HTTP/1.1, and then the connection.
func TestHTTP2DrainSendsGoAway(t *testing.T) {
	eachHTTP2(t, func(t *testing.T, b *bench) {
		requestID, _ := b.accepted(hello)
		b.emit(b.claim(requestID), metadata())
		resp, reader := b.open(b.request(http.MethodGet, "/v1/requests/"+requestID+"/stream", ""))
		if _, err := reader.Next(); err != nil {
			t.Fatal(err)
		}
		b.gateway.Drain()
		if rest, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("the stream ended whole with %q, want it cut", rest)
		}
		if a := b.post("/v1/agents/demo/stream", hello); a.status != http.StatusServiceUnavailable {
			t.Errorf("a new stream: got %d %s", a.status, a.body)
		}
		shut, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := b.server.Config.Shutdown(shut); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if a := b.get("/healthz"); a.err == nil {
			t.Errorf("after GOAWAY: got %d, want that the connection is gone", a.status)
		}
	})
}

func TestHTTP2LimitsHold(t *testing.T) {
	t.Parallel()
	t.Run("headers", func(t *testing.T) {
		t.Parallel()
		b := start(t)
		b.overHTTP2(false)
		if a := b.get("/v1/agents", "X-A", strings.Repeat("a", 64<<10)); a.err == nil && a.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("got %d, want 431", a.status)
		}
	})
	t.Run("streams of a principal", func(t *testing.T) {
		t.Parallel()
		b := start(t, withKeys, func(d *gateway.Deps) { d.Config.Gateway.Limits.Streams = 2 })
		b.overHTTP2(false)
		key, _ := b.key("acme", "alice")
		stream := func() *http.Request {
			made := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+key)
			return b.request(http.MethodGet, "/v1/requests/"+made.header.Get("X-Request-Id")+"/stream", "", "Authorization", "Bearer "+key)
		}
		first, _ := b.open(stream())
		b.open(stream())
		if a := b.do(stream()); a.status != http.StatusTooManyRequests || a.failure(t).Code != apierr.RateLimitExceeded {
			t.Errorf("a third stream: got %d %s", a.status, a.body)
		}
		_ = first.Body.Close()
		b.eventually("a stream that was reset makes room", func() bool {
			resp, err := b.server.Client().Do(stream())
			if err != nil {
				return false
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	})
	for name, secured := range map[string]bool{"connections with TLS": true, "connections without TLS": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, func(d *gateway.Deps) { d.Config.Gateway.Limits.Connections = 1 })
			b.overHTTP2(secured)
			if a := b.get("/v1/agents"); a.status != http.StatusOK {
				t.Fatalf("got %d %v", a.status, a.err)
			}
			transport, _ := b.server.Client().Transport.(*http.Transport)
			b.server.Client().Transport = transport.Clone()
			if a := b.get("/v1/agents"); a.status != http.StatusTooManyRequests {
				t.Errorf("a second connection: got %d %s %v", a.status, a.body, a.err)
			}
			transport.CloseIdleConnections()
		})
	}
}

// TestHTTP2RapidReset opens and resets streams as fast as it can (CVE-2023-44487): the gateway runs no more handlers than it
// allows streams, and serves others.
func TestHTTP2RapidReset(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	b.emit(b.claim(requestID), metadata())
	conn, err := net.Dial("tcp", b.listen())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(conn, conn)
	if err := frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- flood(frames, "/v1/requests/"+requestID+"/stream") }()
	allowed, refused := uint32(0), false
	for {
		frame, err := frames.ReadFrame()
		if err != nil {
			break
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if n, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
				allowed = n
			}
		case *http2.GoAwayFrame:
			refused = f.ErrCode == http2.ErrCodeEnhanceYourCalm
		}
		if refused {
			break
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			break // everything before it was read
		}
	}
	_ = conn.Close()
	<-ended
	if allowed != 250 {
		t.Errorf("got %d streams at one time, want 250", allowed)
	}
	if a := b.get("/v1/agents"); a.status != http.StatusOK {
		t.Errorf("afterwards: got %d %v", a.status, a.err)
	}
}

// flood opens 20,000 streams and resets each at once, unless the connection ends before. A ping follows.
func flood(frames *http2.Framer, path string) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for id := uint32(1); id < 40_000; id += 2 {
		block.Reset()
		var all error
		for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", path}} {
			all = errors.Join(all, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
		}
		all = errors.Join(all,
			frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}),
			frames.WriteRSTStream(id, http2.ErrCodeCancel))
		if all != nil {
			return all
		}
	}
	return frames.WritePing(false, [8]byte{})
}
