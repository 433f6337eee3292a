package gateway_test

import (
	"testing"
)

func TestLogWithoutItsEndIsAnIncompleteStream(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.archive.keep(frame(t, 0, input("hi"), metadata()), frame(t, 2, delta("a"), delta("b")))
	const path = "/v1/requests/req_old/stream"
	for _, cursor := range []string{"", "old1-1", "old1-3"} {
		if a := b.get(path, "Last-Event-ID", cursor); a.err == nil {
			t.Errorf("after %q: got %d and a clean end behind %q", cursor, a.status, a.body)
		}
	}
}

func TestARequestThatBeganAgainAfterTheStreamWasLostIsReadAnew(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.archive.keep(frame(t, 0, input("hi"), metadata()), frame(t, 2, delta("lost"), delta("lost")))
	b.run("req_old", metadata(), delta("new"), done())
	const path = "/v1/requests/req_old/stream"
	for _, cursor := range []string{"", "old1-3", "old1-1"} {
		a := b.get(path, "Last-Event-ID", cursor)
		if reset := a.header.Get("X-Stream-Reset") == "true"; reset != (cursor != "") {
			t.Errorf("after %q: reset is %t", cursor, reset)
		}
		if got := names(t, a.body); got != steps("metadata", "text", "done") {
			t.Errorf("after %q: got events %q", cursor, got)
		}
	}
}
