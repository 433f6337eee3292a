package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/go-json-experiment/json"
)

// quick makes polls short.
func quick(d *gateway.Deps) { d.Config.Gateway.Heartbeat = config.Duration(50 * time.Millisecond) }

// messages lists the names of the messages in a body, with the deltas of texts.
func messages(t *testing.T, body string) string {
	t.Helper()
	var all []struct {
		Event string `json:"event"`
		Delta string `json:"delta"`
	}
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatalf("%v: %.300s", err, body)
	}
	var list []string
	for _, m := range all {
		list = append(list, strings.TrimSuffix(m.Event+":"+m.Delta, ":"))
	}
	return strings.Join(list, " ")
}

// position describes the headers of a response.
func position(a answer) string {
	text := ""
	for _, name := range []string{"Stream-Up-To-Date", "Stream-Closed"} {
		if a.header.Get(name) == "true" {
			text += " " + strings.ToLower(strings.TrimPrefix(name, "Stream-"))
		}
	}
	return strings.TrimSpace(fmt.Sprint(a.status, text))
}

func TestAStreamOfARequestIsReadByOffsets(t *testing.T) {
	t.Parallel()
	b := start(t, quick)
	requestID, _ := b.accepted(hello)
	path := "/streams/" + requestID
	empty := b.get(path)
	if position(empty) != "200 up-to-date" || messages(t, empty.body) != "" {
		t.Fatalf("an empty log: got %s %s", position(empty), empty.body)
	}
	w := b.claim(requestID)
	b.emit(w, metadata(), delta("a"), delta("b"))
	offset := empty.header.Get("Stream-Next-Offset")
	for _, query := range []string{"", "?offset=-1", "?offset=" + offset, "?offset=-1&live=long-poll", "?other=1"} {
		if a := b.get(path + query); position(a) != "200 up-to-date" || messages(t, a.body) != "metadata text:a text:b" {
			t.Errorf("%q: got %s %s", query, position(a), a.body)
		}
	}
	first := b.get(path)
	offset = first.header.Get("Stream-Next-Offset")
	if head := b.do(b.request(http.MethodHead, path, "")); position(head) != "200" || head.header.Get("Stream-Next-Offset") != offset ||
		head.header.Get("Cache-Control") != "no-store" || head.header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: got %s %v, want the offset %s", position(head), head.header, offset)
	}
	if a := b.get(path + "?offset=now"); position(a) != "200 up-to-date" || a.body != "[]\n" || a.header.Get("Stream-Next-Offset") != offset ||
		a.header.Get("Cache-Control") != "no-store" || a.header.Get("ETag") != "" {
		t.Errorf("now: got %s %s %v", position(a), a.body, a.header)
	}
	if a := b.get(path + "?offset=" + offset + "&live=long-poll"); position(a) != "204 up-to-date" || a.header.Get("Stream-Cursor") == "" ||
		a.header.Get("Stream-Next-Offset") != offset {
		t.Errorf("a poll without news: got %s %v", position(a), a.header)
	}
	b.emit(w, delta("c"), done())
	if a := b.get(path + "?offset=" + offset); position(a) != "200 up-to-date closed" || messages(t, a.body) != "text:c done" {
		t.Errorf("the rest: got %s %s", position(a), a.body)
	}
	end := b.do(b.request(http.MethodHead, path, ""))
	if position(end) != "200 closed" {
		t.Errorf("HEAD of a closed stream: got %s", position(end))
	}
	offset = end.header.Get("Stream-Next-Offset")
	for query, want := range map[string]string{
		"?offset=" + offset: "200 up-to-date closed", "?offset=now": "200 up-to-date closed",
		"?offset=" + offset + "&live=long-poll": "204 up-to-date closed", "?offset=now&live=long-poll": "204 up-to-date closed",
	} {
		if a := b.get(path + query); position(a) != want || a.status == http.StatusOK && a.body != "[]\n" {
			t.Errorf("at the end, %s: got %s %q, want %s", query, position(a), a.body, want)
		}
	}
}

func TestAStreamIsReadAgainOnlyIfItHasChanged(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	path := "/streams/" + requestID
	w := b.claim(requestID)
	b.emit(w, metadata())
	tag := b.get(path).header.Get("ETag")
	if a := b.get(path, "If-None-Match", `"other", `+tag); a.status != http.StatusNotModified || a.body != "" {
		t.Errorf("the same tag: got %d %s", a.status, a.body)
	}
	if a := b.get(path+"?include=extended", "If-None-Match", tag); a.status != http.StatusOK {
		t.Errorf("the tag of another selection: got %d", a.status)
	}
	b.emit(w, done())
	if a := b.get(path, "If-None-Match", tag); a.status != http.StatusOK || a.header.Get("ETag") == tag {
		t.Errorf("an old tag: got %d %s", a.status, a.header.Get("ETag"))
	}
}

func TestStreamsRefuseWhatTheyCannotServe(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	b.run(requestID, metadata())
	next := b.get("/streams/" + requestID).header.Get("Stream-Next-Offset")
	incarnation, _, _ := strings.Cut(next, "_")
	for _, path := range []string{"/streams/" + requestID, "/streams/threads/" + threadID} {
		for query, want := range map[string]int{
			"?offset=": 400, "?offset=1": 400, "?offset=-1&offset=-1": 400, "?offset=a,b": 400, "?offset=a%20b": 400,
			"?live=sse": 400, "?live=long-poll": 400, "?offset=-1&live=true": 400, "?include=none": 400, "?include=tool_output": 400,
		} {
			if a := b.get(path + query); a.status != want || !strings.Contains(a.body, `"code":"invalid_message_format"`) {
				t.Errorf("%s%s: got %d %s, want %d", path, query, a.status, a.body, want)
			}
		}
		for _, method := range []string{http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch} {
			a := b.do(b.request(method, path, `{"a":1}`, "Content-Type", "application/json"))
			if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") == "" || !strings.Contains(a.body, `"message"`) {
				t.Errorf("%s %s: got %d %v %s, want 405", method, path, a.status, a.header, a.body)
			}
		}
	}
	for path, offsets := range map[string][]string{
		"/streams/" + requestID:        {incarnation + "_0000000000000099", "other_0000000000000000"},
		"/streams/threads/" + threadID: {incarnation + "_0000000000_0000000000000099", incarnation + "_0000000007_0000000000000000", "other_0000000000_0000000000000000"},
	} {
		for _, offset := range offsets {
			for _, live := range []string{"", "&live=long-poll", "&live=sse"} {
				if a := b.get(path + "?offset=" + offset + live); a.status != http.StatusGone || !strings.Contains(a.body, `"code":"offset_gone"`) {
					t.Errorf("%s from %s%s: got %d %s, want 410", path, offset, live, a.status, a.body)
				}
			}
		}
	}
	for _, path := range []string{"/streams/none", "/streams/threads/none", "/streams/threads"} {
		if a := b.get(path + "?offset=now"); a.status != http.StatusNotFound {
			t.Errorf("%s: got %d %s, want 404", path, a.status, a.body)
		}
	}
}

// controls reads server-sent events until one says that the client is up to date or that the stream is closed, and lists the
// messages and the last control event.
func (b *bench) controls(path string) (names string, last map[string]any) {
	b.t.Helper()
	_, reader := b.open(b.request(http.MethodGet, path, ""))
	var list []string
	for {
		e, err := reader.Next()
		if err != nil {
			b.t.Fatalf("%s: %v after %v", path, err, list)
		}
		if e.Name == "data" {
			list = append(list, messages(b.t.(*testing.T), string(e.Data)))
			continue
		}
		last = nil
		if err := json.Unmarshal(e.Data, &last); err != nil {
			b.t.Fatal(err)
		}
		if last["upToDate"] == true || last["streamClosed"] == true {
			return strings.Join(list, " "), last
		}
	}
}

func TestAStreamIsFollowedByServerSentEvents(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	request, thread := "/streams/"+requestID+"?live=sse&offset=", "/streams/threads/"+threadID+"?live=sse&offset="
	w := b.claim(requestID)
	b.emit(w, input("hi"), metadata(), delta("a"))
	offsets := map[string]string{}
	for path, want := range map[string]string{request: "metadata text:a", thread: "input metadata text:a"} {
		got, last := b.controls(path + "-1")
		if got != want || last["streamCursor"] == nil {
			t.Errorf("%s: got %s %v, want %s", path, got, last, want)
		}
		offsets[path], _ = last["streamNextOffset"].(string)
		if got, last := b.controls(path + "now"); got != "" || last["streamNextOffset"] != offsets[path] {
			t.Errorf("%s now: got %s %v, want %s", path, got, last, offsets[path])
		}
	}
	b.emit(w, delta("b"), done())
	got, last := b.controls(request + offsets[request])
	if got != "text:b done" || last["streamClosed"] != true || last["streamCursor"] != nil {
		t.Errorf("the end of a request: got %s %v", got, last)
	}
	if got, last := b.controls(request + last["streamNextOffset"].(string)); got != "" || last["streamClosed"] != true {
		t.Errorf("after the end: got %s %v", got, last)
	}
	got, last = b.controls(thread + offsets[thread])
	if got != "text:b done" || last["streamClosed"] != nil {
		t.Errorf("the end of a request on a thread: got %s %v", got, last)
	}
	next, _ := b.accepted(onThread(threadID))
	b.run(next, metadata(), delta("c"))
	if got, _ := b.controls(thread + last["streamNextOffset"].(string)); got != "metadata text:c" {
		t.Errorf("the next request: got %s", got)
	}
}

func TestAStreamOfAThreadIsReadByOffsets(t *testing.T) {
	t.Parallel()
	b := start(t, quick)
	requestID, threadID := b.accepted(hello)
	path := "/streams/threads/" + threadID
	if a := b.get(path); position(a) != "200 up-to-date" || a.body != "[]\n" {
		t.Errorf("an empty thread: got %s %s", position(a), a.body)
	}
	b.run(requestID, metadata(), done())
	first := b.get(path)
	if position(first) != "200 up-to-date" || messages(t, first.body) != "metadata done" {
		t.Errorf("one request: got %s %s", position(first), first.body)
	}
	offset := first.header.Get("Stream-Next-Offset")
	if a := b.get(path + "?live=long-poll&offset=" + offset); position(a) != "204 up-to-date" {
		t.Errorf("a poll without news: got %s", position(a))
	}
	next, _ := b.accepted(onThread(threadID))
	w := b.claim(next)
	b.emit(w, metadata(), delta("x"))
	if a := b.get(path + "?live=long-poll&offset=" + offset); position(a) != "200 up-to-date" || messages(t, a.body) != "metadata text:x" {
		t.Errorf("the next request: got %s %s", position(a), a.body)
	}
	if a := b.get(path); messages(t, a.body) != "metadata done metadata text:x" || a.header.Get("Stream-Next-Offset") <= offset {
		t.Errorf("both: got %s %s", a.body, a.header.Get("Stream-Next-Offset"))
	}
	b.emit(w, done())
	if a := b.do(b.request(http.MethodDelete, "/v1/threads/"+threadID, "")); a.status != http.StatusNoContent {
		t.Fatalf("delete: got %d %s", a.status, a.body)
	}
	if a := b.get(path + "?offset=" + offset); a.status != http.StatusNotFound {
		t.Errorf("a deleted thread: got %d", a.status)
	}
}

func TestALargeStreamIsReadInPages(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	w := b.claim(requestID)
	want := 0
	for range 40 {
		b.emit(w, delta(strings.Repeat("x", 100<<10)))
		want++
	}
	b.emit(w, done())
	got, pages, offset := 0, 0, "-1"
	for {
		a := b.get("/streams/" + requestID + "?offset=" + offset)
		got += strings.Count(a.body, `"event":"text"`)
		pages++
		if offset = a.header.Get("Stream-Next-Offset"); a.header.Get("Stream-Closed") == "true" {
			break
		}
		if a.status != http.StatusOK || a.header.Get("Stream-Up-To-Date") != "" || pages > want {
			t.Fatalf("page %d: got %s", pages, position(a))
		}
	}
	if got != want || pages < 3 {
		t.Errorf("got %d messages in %d pages, want %d in several", got, pages, want)
	}
}

func TestAStreamThatOnlyHistoryHasIsRead(t *testing.T) {
	t.Parallel()
	b := start(t)
	last := event.Event{ID: event.NewCursor("old1", 2), RequestID: "req_old", Time: time.Now(), Body: done()}
	text, err := event.Encode(last)
	if err != nil {
		t.Fatal(err)
	}
	b.archive.keep(frame(t, 0, metadata(), delta("a")), frame(t, 2, done()))
	b.archive.mu.Lock()
	b.archive.requests[0].Terminal = text
	b.archive.mu.Unlock()
	if a := b.get("/streams/req_old"); position(a) != "200 up-to-date closed" || messages(t, a.body) != "metadata text:a done" {
		t.Errorf("got %s %s", position(a), a.body)
	}
	if a := b.get("/streams/req_old?offset=old1_0000000000000001&live=sse"); a.status != http.StatusOK || !strings.Contains(a.body, `"streamClosed":true`) {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if a := b.do(b.request(http.MethodHead, "/streams/req_old", "")); position(a) != "200 closed" || a.header.Get("Stream-Next-Offset") != "old1_0000000000000003" {
		t.Errorf("HEAD: got %s %v", position(a), a.header)
	}
}
