package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
)

func TestClientDisconnectedTwiceReceivesEachEventOnce(t *testing.T) {
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
		{"the last event of a longer request", ended, inc + "-99", 200, true},
		{"the greatest number there is", ended, inc + "-9223372036854775807", 200, true},
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
			if test.status == 400 && a.failure(t).Code != apierr.InvalidMessageFormat {
				t.Errorf("got %s", a.body)
			}
		})
	}
	a := b.get("/v1/requests/"+ended+"/stream?after="+inc+"-0", "Last-Event-ID", inc+"-1")
	if a.status != 400 || a.failure(t).Code != apierr.InvalidMessageFormat {
		t.Errorf("two different cursors: got %d %s", a.status, a.body)
	}
	a = b.get("/v1/requests/"+ended+"/stream", "Last-Event-ID", inc+"-0", "Last-Event-ID", inc+"-1")
	if a.status != 400 {
		t.Errorf("two headers: got %d", a.status)
	}
}

func TestExpiredRequestIsReadFromHistory(t *testing.T) {
	t.Parallel()
	b := start(t)
	frames := []event.Frame{frame(t, 0, input("hi"), metadata()), frame(t, 2, delta("a"), delta("b")), frame(t, 4, done())}
	b.archive.keep(frames...)
	path := "/v1/requests/req_old/stream"
	if got := names(t, b.get(path).body); got != steps("metadata", "text", "text", "done") {
		t.Errorf("got events %q", got)
	}
	if got := names(t, b.get(path, "Last-Event-ID", "old1-2").body); got != "text done" {
		t.Errorf("after old1-2: got events %q", got)
	}
	if a := b.get(path, "Last-Event-ID", "old1-4"); a.status != http.StatusNoContent {
		t.Errorf("after the end: got %d %s", a.status, a.body)
	}
	if a := b.get(path, "Last-Event-ID", "old1-5"); a.header.Get("X-Stream-Reset") != "true" || names(t, a.body) != steps("metadata", "text", "text", "done") {
		t.Errorf("after an event that was never written: got %d %v %s", a.status, a.header, a.body)
	}
	if a := b.get(path, "Last-Event-ID", "new1-2"); a.header.Get("X-Stream-Reset") != "true" || names(t, a.body) != steps("metadata", "text", "text", "done") {
		t.Errorf("another incarnation: got %v %s", a.header, a.body)
	}
	// The thread continues, too: its next request is the second one.
	requestID, threadID := b.accepted(onThread("thr_old"))
	record, err := b.bus.Thread(t.Context(), "default", threadID)
	if err != nil || record.RequestID != requestID || record.Index != 1 {
		t.Errorf("got %+v, %v", record, err)
	}
}

// frame is a frame of the log of req_old, which only history knows.
func frame(t *testing.T, first uint64, bodies ...event.Body) event.Frame {
	t.Helper()
	const incarnation = "old1"
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
