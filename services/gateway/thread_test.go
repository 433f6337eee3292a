package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/go-json-experiment/json"
)

// take reads n events from a stream.
func take(t *testing.T, r *sse.Reader, n int) []sse.Event {
	t.Helper()
	events := make([]sse.Event, n)
	for i := range events {
		var err error
		if events[i], err = r.Next(); err != nil {
			t.Fatalf("event %d of %d: %v", i, n, err)
		}
	}
	return events
}

func list(events []sse.Event) string {
	var all []string
	for _, e := range events {
		all = append(all, e.Name)
	}
	return strings.Join(all, " ")
}

func TestAThreadStreamsRequestAfterRequest(t *testing.T) {
	t.Parallel()
	b := start(t)
	first, threadID := b.accepted(hello)
	path := "/v1/threads/" + threadID + "/stream"
	b.run(first, input("hi"), metadata(), done())
	_, fresh := b.open(b.request(http.MethodGet, path, ""))            // nothing runs: begins with the next request
	_, whole := b.open(b.request(http.MethodGet, path+"?after=0", "")) // begins at the beginning
	_, again := b.open(b.request(http.MethodGet, path+"?from=start", ""))
	if got := list(take(t, whole, 3)); got != "input metadata done" {
		t.Errorf("from the start: got %q", got)
	}
	if got := list(take(t, again, 3)); got != "input metadata done" {
		t.Errorf("from=start: got %q", got)
	}
	second, _ := b.accepted(onThread(threadID))
	w := b.claim(second)
	b.emit(w, input("more"), metadata(), delta("a"))
	seen := take(t, fresh, 3)
	if got := list(seen); got != "input metadata text" || !strings.Contains(string(seen[0].Data), `"requestId":"`+second+`"`) {
		t.Errorf("the next request: got %q, %s", got, seen[0].Data)
	}
	if got := list(take(t, whole, 3)); got != "input metadata text" {
		t.Errorf("from the start, the next request: got %q", got)
	}
	_, joined := b.open(b.request(http.MethodGet, path, "")) // begins with the request that runs
	if got := list(take(t, joined, 3)); got != "input metadata text" {
		t.Errorf("joined in the middle: got %q", got)
	}
	b.emit(w, delta("b"), done())
	third, _ := b.accepted(onThread(threadID))
	b.run(third, input("last"), metadata(), done())
	for name, r := range map[string]*sse.Reader{"fresh": fresh, "whole": whole, "joined": joined} {
		if got := list(take(t, r, 5)); got != "text done input metadata done" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestAThreadStreamResumesAfterEachEvent(t *testing.T) {
	t.Parallel()
	b := start(t)
	first, threadID := b.accepted(hello)
	b.run(first, input("hi"), metadata(), done())
	second, _ := b.accepted(onThread(threadID))
	b.run(second, input("more"), metadata(), delta("a"), done())
	path := "/v1/threads/" + threadID + "/stream"
	_, reader := b.open(b.request(http.MethodGet, path+"?after=0", ""))
	whole := take(t, reader, 7)
	for i, e := range whole[:6] {
		resp, rest := b.open(b.request(http.MethodGet, path, "", "Last-Event-ID", e.ID))
		for j, got := range take(t, rest, 6-i) {
			if want := whole[i+1+j]; got.ID != want.ID || string(got.Data) != string(want.Data) {
				t.Errorf("after %s: event %d is %s, want %s", e.ID, j, got.ID, want.ID)
			}
		}
		_ = resp.Body.Close()
	}
	// After the last event the thread waits for what comes next.
	_, rest := b.open(b.request(http.MethodGet, path, "", "Last-Event-ID", whole[6].ID))
	third, _ := b.accepted(onThread(threadID))
	b.run(third, input("third"), metadata(), done())
	if got := take(t, rest, 3); list(got) != "input metadata done" || !strings.Contains(string(got[0].Data), third) {
		t.Errorf("after the last event: got %q", list(got))
	}
}

func TestThreadStreamStartsBeforeFirstRequest(t *testing.T) {
	t.Parallel()
	b := start(t)
	first, threadID := b.accepted(hello)
	b.run(first, input("hi"), metadata(), done())
	inc := b.bus.Incarnation()
	path := "/v1/threads/" + threadID + "/stream"
	ahead, next := b.open(b.request(http.MethodGet, path, "", "Last-Event-ID", inc+"-1.start"))
	second, _ := b.accepted(onThread(threadID))
	b.run(second, input("more"), metadata(), delta("a"), done())
	for cursor, want := range map[string]string{
		inc + "-0.start": "input metadata done input metadata text done",
		inc + "-1.start": "input metadata text done",
	} {
		resp, reader := b.open(b.request(http.MethodGet, path, "", "Last-Event-ID", cursor))
		if got := list(take(t, reader, len(strings.Fields(want)))); got != want || resp.Header.Get("X-Stream-Reset") != "" {
			t.Errorf("%s: got %q, want %q", cursor, got, want)
		}
	}
	if got := list(take(t, next, 4)); got != "input metadata text done" || ahead.Header.Get("X-Stream-Reset") != "" {
		t.Errorf("before a request that was yet to come: got %q", got)
	}
	resp, _ := b.open(b.request(http.MethodGet, path, "", "Last-Event-ID", inc+"-3.start"))
	if resp.Header.Get("X-Stream-Reset") != "true" {
		t.Error("an unknown request as the start")
	}
}

func TestThreadCursorsThatAreOdd(t *testing.T) {
	t.Parallel()
	b := start(t)
	first, threadID := b.accepted(hello)
	b.run(first, input("hi"), metadata(), done())
	path := "/v1/threads/" + threadID + "/stream"
	for _, bad := range []string{"1", "x-1", "x-1.", "x-1.-1", "x-1.01", "x-99999999999.1", b.bus.Incarnation() + "-0", "a.b", ">"} {
		if a := b.get(path, "Last-Event-ID", bad); a.status != 400 || a.failure(t).Code != apierr.InvalidMessageFormat {
			t.Errorf("%q: got %d %s", bad, a.status, a.body)
		}
	}
	if a := b.get(path + "?from=stat"); a.status != 400 || a.failure(t).Code != apierr.InvalidMessageFormat {
		t.Errorf("from=stat: got %d %s", a.status, a.body)
	}
	second, _ := b.accepted(onThread(threadID))
	b.emit(b.claim(second), metadata())
	inc := b.bus.Incarnation()
	for _, foreign := range []string{"zzzz-0.1", inc + "-9.1", inc + "-0.99", inc + "-1.99"} {
		resp, reader := b.open(b.request(http.MethodGet, path, "", "Last-Event-ID", foreign))
		if resp.Header.Get("X-Stream-Reset") != "true" || list(take(t, reader, 3)) != "input metadata done" {
			t.Errorf("%q: got %v", foreign, resp.Header)
		}
	}
}

func TestDeletedThreadIsNotFound(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	path := "/v1/threads/" + threadID
	if a := b.do(b.request(http.MethodDelete, path, "")); a.status != http.StatusConflict || a.failure(t).RunningRequestID != requestID {
		t.Errorf("while a request runs: got %d %s", a.status, a.body)
	}
	b.run(requestID, metadata(), done())
	resp, reader := b.open(b.request(http.MethodGet, path+"/stream?after=0", ""))
	take(t, reader, 2)
	if a := b.do(b.request(http.MethodDelete, path, "")); a.status != http.StatusNoContent || a.body != "" {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if e, err := reader.Next(); err == nil {
		t.Errorf("a deleted thread streams %s", e.Name)
	}
	_ = resp.Body.Close()
	for _, gone := range []string{path, path + "/messages", path + "/events", path + "/stream", "/v1/requests/" + requestID, "/v1/requests/" + requestID + "/stream"} {
		if a := b.get(gone); a.status != http.StatusNotFound {
			t.Errorf("GET %s: got %d %s", gone, a.status, a.body)
		}
	}
	if a := b.do(b.request(http.MethodDelete, path, "")); a.status != http.StatusNotFound {
		t.Errorf("again: got %d %s", a.status, a.body)
	}
	if a := b.post("/v1/agents/demo/requests", onThread(threadID)); a.status != http.StatusNotFound {
		t.Errorf("a request on it: got %d %s", a.status, a.body)
	}
}

func TestGetRequestAtEachStage(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	read := func() historyapi.Request {
		t.Helper()
		a := b.get("/v1/requests/" + requestID)
		var q historyapi.Request
		if err := json.Unmarshal([]byte(a.body), &q); err != nil || a.status != http.StatusOK {
			t.Fatalf("got %d %s, %v", a.status, a.body, err)
		}
		return q
	}
	if q := read(); q.Status != historyapi.StatusQueued || q.ThreadID != threadID || q.AgentID != "demo" || q.Owner != "dev" || q.CreatedAt.IsZero() {
		t.Errorf("queued: got %+v", q)
	}
	w := b.claim(requestID)
	if q := read(); q.Status != historyapi.StatusRunning {
		t.Errorf("running: got %+v", q)
	}
	b.emit(w, event.Done{MessageID: "m", ThreadID: threadID, Usage: event.Usage{InputTokens: 7}, FinishReason: event.FinishStop})
	b.archive.mu.Lock()
	b.archive.requests = append(b.archive.requests, historyapi.Request{RequestID: requestID, Status: historyapi.StatusDone, Owner: "dev", Index: 0})
	b.archive.mu.Unlock()
	if q := read(); q.Status != historyapi.StatusDone {
		t.Errorf("done: got %+v", q)
	}
}

func TestHistoryIsAskedForTheCallersOwn(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	b.run(requestID, metadata(), done())
	for _, path := range []string{
		"/v1/threads?limit=7&cursor=abc", "/v1/threads/" + threadID + "/messages?limit=3",
		"/v1/threads/" + threadID + "/events?type=text,done&type=error&since=2026-01-31T12:00:00Z&limit=1000",
	} {
		if a := b.get(path); a.status != http.StatusOK {
			t.Errorf("%s: got %d %s", path, a.status, a.body)
		}
	}
	b.archive.mu.Lock()
	defer b.archive.mu.Unlock()
	asked := strings.Join(b.archive.asked, "\n")
	for _, want := range []string{
		`threads {"tenant":"default","owner":"dev","limit":7,"cursor":"abc"}`,
		`messages {"tenant":"default","threadId":"` + threadID + `","limit":3}`,
		`events {"tenant":"default","threadId":"` + threadID + `","types":["text","done","error"],"since":"2026-01-31T12:00:00Z","limit":1000}`,
	} {
		if !strings.Contains(asked, want) {
			t.Errorf("history was asked\n%s\nwant %s", asked, want)
		}
	}
}
