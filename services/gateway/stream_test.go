package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway"

	"github.com/agentbus/agentbus/pkg/config"
)

// runs answers every pointer with these events, as runners do.
func (b *bench) runs(bodies ...event.Body) {
	b.background(func(ctx context.Context) error {
		return b.bus.Starts(ctx, 4, func(ctx context.Context, s command.Start) error {
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

func TestPostStreamsTheWholeRequest(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.runs(input("hi"), metadata(), delta("hel"), delta("lo"), event.ToolOutput{ToolCallID: "c", Content: "secret"}, done())
	a := b.post("/v1/agents/demo/stream", hello)
	if a.status != http.StatusOK || a.err != nil {
		t.Fatalf("got %d %s %v", a.status, a.body, a.err)
	}
	if got := names(t, a.body); got != "metadata text text done" {
		t.Errorf("got events %q", got)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
		"X-Content-Type-Options": "nosniff",
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
	if got := names(t, b.get("/v1/requests/"+a.header.Get("X-Request-Id")+"/stream?include=extended").body); got != "claim input metadata text text done" {
		t.Errorf("extended: got events %q", got)
	}
	if got := names(t, b.get("/v1/requests/"+a.header.Get("X-Request-Id")+"/stream?include=input,usage").body); got != "input metadata text text done" {
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

func TestAClientThatIsCutTwiceSeesEachEventOnce(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	w := b.claim(requestID)
	path := "/v1/requests/" + requestID + "/stream"
	b.emit(w, metadata())
	var got []string
	last := ""
	for round := range 3 {
		headers := []string{}
		if last != "" {
			headers = []string{"Last-Event-ID", last}
		}
		resp, reader := b.open(b.request(http.MethodGet, path, "", headers...))
		for i := range 4 {
			if i == 1 {
				b.emit(w, delta(fmt.Sprintf("%d.a", round)), delta(fmt.Sprintf("%d.b", round)), delta(fmt.Sprintf("%d.c", round)))
			}
			if round > 0 && i == 0 {
				continue
			}
			e, err := reader.Next()
			if err != nil {
				t.Fatal(err)
			}
			got, last = append(got, e.Name+string(dataOf(t, e))), e.ID
		}
		_ = resp.Body.Close()
	}
	b.emit(w, done())
	events, _, err := sse.Parse([]byte(b.get(path).body))
	if err != nil || len(events) != 11 {
		t.Fatalf("got %d events, %v", len(events), err)
	}
	for i, e := range events[:10] {
		if i < len(got) && got[i] != e.Name+string(dataOf(t, e)) {
			t.Errorf("event %d: got %s, want %s", i, got[i], e.Data)
		}
	}
	if len(got) != 10 {
		t.Errorf("read %d events, want 10", len(got))
	}
}

func dataOf(t *testing.T, e sse.Event) []byte {
	t.Helper()
	if len(e.Data) == 0 {
		t.Fatalf("event %s has no data", e.ID)
	}
	return e.Data
}

func TestResumeAfterEachEventGivesTheRest(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	b.run(requestID, metadata(), delta("a"), delta("b"), delta("c"), done())
	path := "/v1/requests/" + requestID + "/stream"
	whole, _, err := sse.Parse([]byte(b.get(path).body))
	if err != nil || len(whole) != 5 {
		t.Fatalf("got %d events, %v", len(whole), err)
	}
	for i, after := range whole {
		for _, a := range []answer{b.get(path, "Last-Event-ID", after.ID), b.get(path + "?after=" + after.ID),
			b.get(path+"?after="+after.ID, "Last-Event-ID", after.ID)} {
			if i == len(whole)-1 {
				if a.status != http.StatusNoContent || a.body != "" {
					t.Errorf("after the terminal event: got %d %q, want 204", a.status, a.body)
				}
				continue
			}
			rest, _, err := sse.Parse([]byte(a.body))
			if err != nil || len(rest) != len(whole)-i-1 || rest[0].ID != whole[i+1].ID {
				t.Errorf("after event %d: got %d events, %v", i, len(rest), err)
			}
		}
	}
}

func TestCursorsThatAreOdd(t *testing.T) {
	t.Parallel()
	b := start(t)
	ended, _ := b.accepted(hello)
	b.run(ended, metadata(), done())
	running, _ := b.accepted(hello)
	w := b.claim(running)
	b.emit(w, metadata())
	queued, _ := b.accepted(hello)
	inc := b.bus.Incarnation()
	tests := []struct {
		what, request, cursor string
		status                int
		reset                 bool
	}{
		{"the terminal event", ended, inc + "-2", 204, false},
		{"behind the terminal event", ended, inc + "-99", 204, false},
		{"an event that is not yet", running, inc + "-99", 200, true},
		{"any event of a request that has none", queued, inc + "-0", 200, true},
		{"an event of another incarnation", ended, "zzzz-1", 200, true},
		{"no cursor", ended, "1", 400, false},
		{"zero", ended, "0", 400, false},
		{"a negative number", ended, "-1", 400, false},
		{"a float", ended, inc + "-1e9", 400, false},
		{"a plus sign", ended, inc + "-+1", 400, false},
		{"more than a number holds", ended, inc + "-18446744073709551616", 400, false},
		{"a wildcard", ended, ">", 400, false},
		{"a line break", ended, "1%0Aevent:%20done", 400, false},
		{"a long one", ended, strings.Repeat("a", 4000) + "-1", 400, false},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			r := b.request(http.MethodGet, "/v1/requests/"+test.request+"/stream?after="+strings.ReplaceAll(test.cursor, "+", "%2B"), "")
			a := b.do(r.WithContext(ctx))
			if a.status != test.status || (a.header.Get("X-Stream-Reset") == "true") != test.reset {
				t.Errorf("got %d, reset %q, %v", a.status, a.header.Get("X-Stream-Reset"), a.err)
			}
			if test.status == 400 && a.failure(t).Code != fault.InvalidMessageFormat {
				t.Errorf("got %s", a.body)
			}
		})
	}
	a := b.get("/v1/requests/"+ended+"/stream?after="+inc+"-0", "Last-Event-ID", inc+"-1")
	if a.status != 400 || a.failure(t).Code != fault.InvalidMessageFormat {
		t.Errorf("two different cursors: got %d %s", a.status, a.body)
	}
	a = b.get("/v1/requests/"+ended+"/stream", "Last-Event-ID", inc+"-0", "Last-Event-ID", inc+"-1")
	if a.status != 400 {
		t.Errorf("two headers: got %d", a.status)
	}
}

func TestAStreamThatIsTooLongIsCutAndOneThatNeverBeginsTimesOut(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.StreamTimeout = config.Duration(300 * time.Millisecond) })
	a := b.post("/v1/agents/demo/stream", hello)
	if a.status != http.StatusGatewayTimeout {
		t.Fatalf("got %d %s, want 504", a.status, a.body)
	}
	if f := a.failure(t); f.Code != fault.StreamTimeout || !f.Retryable || a.header.Get("X-Request-Id") == "" {
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
	requestID, _ := b.accepted(hello)
	w := b.claim(requestID)
	resp, _ := b.open(b.request(http.MethodGet, "/v1/requests/"+requestID+"/stream", ""))
	var text strings.Builder
	buffer := make([]byte, 4096)
	for strings.Count(text.String(), ": heartbeat\n\n") < 3 {
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
	if got := names(t, text.String()+string(rest)); got != "metadata done" {
		t.Errorf("got events %q", got)
	}
}

func TestDrainCutsStreamsAndSaysWhenToComeBack(t *testing.T) {
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

func TestTheRequestOfAClientThatLeavesIsAbortedWhereTheAgentSaysSo(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		d.Config.Agents["fragile"] = config.Agent{Backend: "scripted", OnDisconnect: "abort"}
	})
	requests := make(chan string, 1)
	b.background(func(ctx context.Context) error {
		return b.bus.Starts(ctx, 1, func(ctx context.Context, s command.Start) error {
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
			// Somebody who only watches may leave without any effect.
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
				t.Error("aborted, though the agent goes on")
			}
		})
	}
}

func TestASlowReaderHoldsUpNobody(t *testing.T) {
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
		t.Errorf("the fast reader took %v beside one that reads nothing", took)
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

func TestWhatTheBusHasForgottenComesFromHistory(t *testing.T) {
	t.Parallel()
	b := start(t)
	frames := []event.Frame{frame(t, "old1", 0, input("hi"), metadata()), frame(t, "old1", 2, delta("a"), delta("b")), frame(t, "old1", 4, done())}
	b.archive.keep("req_old", frames...)
	path := "/v1/requests/req_old/stream"
	if got := names(t, b.get(path).body); got != "metadata text text done" {
		t.Errorf("got events %q", got)
	}
	if got := names(t, b.get(path, "Last-Event-ID", "old1-2").body); got != "text done" {
		t.Errorf("after old1-2: got events %q", got)
	}
	if a := b.get(path, "Last-Event-ID", "old1-4"); a.status != http.StatusNoContent {
		t.Errorf("after the end: got %d %s", a.status, a.body)
	}
	if a := b.get(path, "Last-Event-ID", "new1-2"); a.header.Get("X-Stream-Reset") != "true" || names(t, a.body) != "metadata text text done" {
		t.Errorf("another incarnation: got %v %s", a.header, a.body)
	}
	// The thread goes on, too: its next request is the second one.
	requestID, threadID := b.accepted(onThread("thr_old"))
	record, err := b.bus.Thread(t.Context(), "default", threadID)
	if err != nil || record.RequestID != requestID || record.Index != 1 {
		t.Errorf("got %+v, %v", record, err)
	}
}

func frame(t *testing.T, incarnation string, first uint64, bodies ...event.Body) event.Frame {
	t.Helper()
	f := event.Frame{Incarnation: incarnation, First: first}
	for i, body := range bodies {
		line, err := event.Encode(event.Event{ID: event.NewCursor(incarnation, first+uint64(i)), RequestID: "req_old", Body: body})
		if err != nil {
			t.Fatal(err)
		}
		f.Names = append(f.Names, body.Name())
		f.Lines = append(append(f.Lines, line...), '\n')
	}
	return f
}
