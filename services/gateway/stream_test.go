package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway"
)

// runs answers every pointer with these events, as runners do.
func (b *bench) runs(bodies ...event.Body) {
	b.background(func(ctx context.Context) error {
		return b.bus.ConsumeRequests(ctx, 4, func(ctx context.Context, s record.Start) error {
			w, _, err := b.bus.Claim(ctx, b.log(s.RequestID), "bench", "test")
			if err != nil {
				return nil // a pointer that came twice
			}
			defer w.Close()
			for _, body := range bodies {
				if err := w.Emit(body); err != nil {
					return err
				}
			}
			return w.Flush(ctx)
		})
	})
}

func TestPostStreamsRequestToEnd(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.runs(input("hi"), metadata(), delta("hel"), delta("lo"), event.ToolOutput{ToolCallID: "c", Content: "secret"}, done())
	a := b.post("/v1/agents/demo/stream", hello)
	if a.status != http.StatusOK || a.err != nil {
		t.Fatalf("got %d %s %v", a.status, a.body, a.err)
	}
	if got := names(t, a.body); got != steps("metadata", "text", "text", "done") {
		t.Errorf("got events %q", got)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
		"X-Content-Type-Options": "nosniff", "Connection": "keep-alive",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(a.body, "retry: 3") {
		t.Errorf("the stream begins with %.20q, want a retry", a.body)
	}
	if a.header.Get("X-Request-Id") == "" || a.header.Get("X-Thread-Id") == "" {
		t.Errorf("got headers %v", a.header)
	}
	if got := names(t, b.get("/v1/requests/"+a.header.Get("X-Request-Id")+"/stream?include=extended").body); got != steps("claim", "input", "metadata", "text", "text", "done") {
		t.Errorf("extended: got events %q", got)
	}
	if got := names(t, b.get("/v1/requests/"+a.header.Get("X-Request-Id")+"/stream?include=input,usage").body); got != steps("input", "metadata", "text", "text", "done") {
		t.Errorf("with input: got events %q", got)
	}
}

func TestLinesAreTheDataOfTheStream(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	b.run(requestID, metadata(), delta("a"), delta("b\u2028\n\nevent: done\ndata: {}"), done())
	for _, query := range []string{"", "?include=extended"} {
		events, _, err := sse.Parse([]byte(b.get("/v1/requests/" + requestID + "/stream" + query).body))
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		for _, e := range events {
			want += string(e.Data) + "\n"
		}
		a := b.get("/v1/requests/"+requestID+"/stream"+query, "Accept", "application/x-ndjson")
		if a.body != want || a.header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("got %s\n%s\nwant\n%s", a.header.Get("Content-Type"), a.body, want)
		}
	}
}

func TestStreamTimeoutBeforeAndAfterFirstByte(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.StreamTimeout = config.Duration(300 * time.Millisecond) })
	a := b.post("/v1/agents/demo/stream", hello)
	if a.status != http.StatusGatewayTimeout {
		t.Fatalf("got %d %s, want 504", a.status, a.body)
	}
	if f := a.failure(t); f.Code != apierr.StreamTimeout || !f.Retryable || a.header.Get("X-Request-Id") == "" {
		t.Errorf("got %s with headers %v", a.body, a.header)
	}
	requestID, _ := b.accepted(hello)
	b.emit(b.claim(requestID), metadata())
	a = b.get("/v1/requests/" + requestID + "/stream")
	if a.status != http.StatusOK || !errors.Is(a.err, io.ErrUnexpectedEOF) {
		t.Errorf("got %d, %v, want a cut connection", a.status, a.err)
	}
}

func TestAQuietStreamHasHeartbeats(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.Heartbeat = config.Duration(50 * time.Millisecond) })
	t.Run("as server-sent events", func(t *testing.T) {
		t.Parallel()
		if got := names(t, b.quiet(t, "text/event-stream", ": heartbeat\n\n")); got != "metadata done" {
			t.Errorf("got events %q", got)
		}
	})
	t.Run("as JSON lines", func(t *testing.T) {
		t.Parallel()
		text := b.quiet(t, "application/x-ndjson", "\n")
		lines := strings.Split(strings.Trim(text, "\n"), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], `"event":"metadata"`) || !strings.Contains(lines[1], `"event":"done"`) {
			t.Errorf("got %q, want empty lines, and then two events", text)
		}
	})
}

// quiet returns a stream whose request begins after three heartbeats.
func (b *bench) quiet(t *testing.T, accept, heartbeat string) string {
	t.Helper()
	requestID, _ := b.accepted(hello)
	w := b.claim(requestID)
	resp, _ := b.open(b.request(http.MethodGet, "/v1/requests/"+requestID+"/stream", "", "Accept", accept))
	var text strings.Builder
	buffer := make([]byte, 4096)
	for strings.Count(text.String(), heartbeat) < 3 {
		n, err := resp.Body.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(buffer[:n])
	}
	b.emit(w, metadata(), done())
	rest, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text.String() + string(rest)
}

func TestARequestThatNoRunnerStartsEndsAtTheAdmissionTimeout(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { // no runner is free; a heartbeat must not write the status
		d.Config.Gateway.AdmissionTimeout = config.Duration(300 * time.Millisecond)
		d.Config.Gateway.Heartbeat = config.Duration(20 * time.Millisecond)
	})
	a := b.post("/v1/agents/demo/stream", hello)
	f := a.failure(t)
	requestID := a.header.Get("X-Request-Id")
	if a.status != http.StatusGatewayTimeout || f.Code != apierr.StreamTimeout || !f.Retryable || requestID == "" ||
		!strings.Contains(a.body, `"requestId":"`+requestID+`"`) {
		t.Fatalf("got %d %s, want 504 that names request %q", a.status, a.body, requestID)
	}
	abort, err := b.bus.Aborted(t.Context(), b.log(requestID))
	if err != nil || !strings.Contains(abort.Reason, "admissionTimeout") {
		t.Errorf("got the abort %+v, %v; want one with the reason", abort, err)
	}
	again := b.accepts(t)
	if again.status != http.StatusOK || names(t, again.body) != "metadata done" {
		t.Errorf("a request that starts in time: got %d %s", again.status, again.body)
	}
}

// accepts streams a request that a runner starts after several heartbeats.
func (b *bench) accepts(t *testing.T) answer {
	t.Helper()
	const key = "started-later"
	background := b.post("/v1/agents/demo/requests", hello, "Idempotency-Key", key)
	requestID := background.header.Get("X-Request-Id")
	runner := time.AfterFunc(100*time.Millisecond, func() { b.run(requestID, metadata(), done()) })
	defer runner.Stop()
	return b.post("/v1/agents/demo/stream", hello, "Idempotency-Key", key)
}

func TestDrainEndsStreamsWithRetryHint(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	b.emit(b.claim(requestID), metadata())
	path := "/v1/requests/" + requestID + "/stream"
	resp, reader := b.open(b.request(http.MethodGet, path, ""))
	if _, err := reader.Next(); err != nil {
		t.Fatal(err)
	}
	b.gateway.Drain()
	rest, err := io.ReadAll(resp.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want a cut connection", err)
	}
	if _, err := reader.Next(); err == nil || reader.Retry() == 0 && !strings.Contains(string(rest), "retry: ") {
		t.Errorf("no retry in %q (%v)", rest, err)
	}
	if a := b.get("/readyz"); a.status != http.StatusServiceUnavailable {
		t.Errorf("readyz: got %d", a.status)
	}
	if a := b.get("/healthz"); a.status != http.StatusOK {
		t.Errorf("healthz: got %d", a.status)
	}
	if a := b.post("/v1/agents/demo/stream", hello); a.status != http.StatusServiceUnavailable || a.header.Get("X-Request-Id") == "" {
		t.Errorf("a new stream: got %d %s", a.status, a.body)
	}
}

func TestRequestOfADisconnectedClientIsAbortedIfConfigured(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		d.Config.Agents["fragile"] = config.Agent{Backend: "scripted", OnDisconnect: "abort"}
	})
	requests := make(chan string, 1)
	b.background(func(ctx context.Context) error {
		return b.bus.ConsumeRequests(ctx, 1, func(ctx context.Context, s record.Start) error {
			w, _, err := b.bus.Claim(ctx, b.log(s.RequestID), "bench", "test")
			if err != nil {
				return err
			}
			defer w.Close()
			if err := w.Emit(metadata()); err != nil {
				return err
			}
			requests <- s.RequestID
			return w.Flush(ctx)
		})
	})
	for agent, aborted := range map[string]bool{"fragile": true, "demo": false} {
		t.Run(agent, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			_, reader := b.open(b.request(http.MethodPost, "/v1/agents/"+agent+"/stream", hello).WithContext(ctx))
			if _, err := reader.Next(); err != nil {
				t.Fatal(err)
			}
			requestID := <-requests
			// A client that only watches may disconnect without any effect.
			watch, stopWatching := context.WithCancel(t.Context())
			_, watcher := b.open(b.request(http.MethodGet, "/v1/requests/"+requestID+"/stream", "").WithContext(watch))
			if _, err := watcher.Next(); err != nil {
				t.Fatal(err)
			}
			stopWatching()
			pause(100 * time.Millisecond)
			if _, err := b.bus.Aborted(t.Context(), b.log(requestID)); err == nil {
				t.Error("aborted because a watcher left")
			}
			leave()
			if aborted {
				b.eventually("aborted", func() bool {
					_, err := b.bus.Aborted(t.Context(), b.log(requestID))
					return err == nil
				})
				return
			}
			pause(200 * time.Millisecond)
			if _, err := b.bus.Aborted(t.Context(), b.log(requestID)); err == nil {
				t.Error("aborted, although the agent continues")
			}
		})
	}
}

func TestSlowReaderDelaysNoOther(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	w := b.claim(requestID)
	path := "/v1/requests/" + requestID + "/stream"
	slow, slowReader := b.open(b.request(http.MethodGet, path, ""))
	_, fast := b.open(b.request(http.MethodGet, path, ""))
	const events = 2000
	b.background(func(context.Context) error {
		text := strings.Repeat("x", 4000) // 8 MB: more than the buffers of a connection
		for range events {
			if err := w.Emit(delta(text)); err != nil {
				return err
			}
		}
		return w.Emit(done())
	})
	begin := time.Now()
	for n := range events + 1 {
		if _, err := fast.Next(); err != nil {
			t.Fatalf("fast reader, event %d: %v", n, err)
		}
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the fast reader took %v while another one read nothing", took)
	}
	for n := range events + 1 {
		e, err := slowReader.Next()
		if err != nil {
			t.Fatalf("slow reader, event %d: %v", n, err)
		}
		if want := event.NewCursor(b.bus.Incarnation(), uint64(n+1)); e.ID != string(want) {
			t.Fatalf("slow reader: got event %s, want %s", e.ID, want)
		}
	}
	_ = slow.Body.Close()
}
