package gateway_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestLongListsAreCompressedAndStreamsAreNot(t *testing.T) {
	t.Parallel()
	b := start(t)
	long := strings.Repeat("x", 4000)
	encoding := func(path, accept string) string {
		r := b.request(http.MethodGet, path, "", "Accept-Encoding", accept) // set by hand, so that the client expands nothing
		response, err := b.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.Header.Get("Content-Encoding")
	}
	id := b.session()
	for _, test := range []struct{ name, path, accept, want string }{
		{"a short response", "/api/v1/health", "gzip", ""},
		{"a client that does not accept gzip", "/api/v1/sessions/details?sessionId=" + id, "identity", ""},
		{"a client that refuses gzip", "/api/v1/runtime-settings", "gzip;q=0", ""},
		{"a stream", "/api/v1/sessions/events/stream?from=start&format=protocol&sessionId=" + id, "gzip", ""},
	} {
		if got := encoding(test.path, test.accept); got != test.want {
			t.Errorf("%s: got the encoding %q, want %q", test.name, got, test.want)
		}
	}
	r := b.request(http.MethodPost, "/api/v1/sessions/create", `{"metadata":{"a":"`+long+`"}}`, "Accept-Encoding", "br, gzip;q=0.5")
	response, err := b.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	plain, err := gzip.NewReader(response.Body)
	if err != nil || response.Header.Get("Content-Encoding") != "gzip" || !slices.Contains(response.Header.Values("Vary"), "Accept-Encoding") {
		t.Fatalf("got %v, %v, want gzip", response.Header, err)
	}
	if text, err := io.ReadAll(plain); err != nil || !strings.Contains(string(text), long) {
		t.Errorf("got %d bytes, %v, want the session", len(text), err)
	}
}

func TestStreamsOfASessionSelectEvents(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.runs(input("hi"), metadata(), delta("hello"), done())
	id := b.session()
	if a := b.post("/api/v1/sessions/query", `{"sessionId":"`+id+`","query":"hi"}`); a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	for query, want := range map[string]string{
		"":                           "user_message agent_run_start",
		"&type=agent_run_*":          "agent_run_start agent_run_end",
		"&type=agent_run_end":        "agent_run_end",
		"&since=1&type=agent_run_e*": "agent_run_end",
		"&format=protocol":           "session_start user_message",
		"&format=protocol&type=agent_run_start,agent_run_end": "agent_run_start agent_run_end",
	} {
		_, reader := b.open(b.request(http.MethodGet, "/api/v1/sessions/events/stream?from=start&sessionId="+id+query, ""))
		wanted := strings.Fields(want)
		for i := range wanted {
			e, err := reader.Next()
			if err != nil {
				t.Fatalf("%s: event %d: %v", query, i, err)
			}
			if !strings.Contains(string(e.Data), `"type":"`+wanted[i]+`"`) {
				t.Errorf("%s: event %d is %s, want %s", query, i, e.Data, wanted[i])
			}
		}
	}
	if a := b.get("/api/v1/sessions/events/stream?since=tomorrow&sessionId=" + id); a.status != http.StatusBadRequest {
		t.Errorf("an invalid time: got %d, want 400", a.status)
	}
}
