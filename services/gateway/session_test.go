package gateway_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
)

// noted creates a session of an owner as any protocol does.
func (b *bench) noted(owner string) bus.SessionRecord {
	b.t.Helper()
	now := time.Now().UTC()
	s, err := b.bus.UpdateSession(b.t.Context(), "default", record.Session{
		ThreadID: id.New(id.Thread), Owner: owner, AgentID: "demo", Name: "a name", CreatedAt: now, UpdatedAt: now,
	}, bus.SessionRecord{})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func TestASessionIsAThreadBeforeItsFirstRequest(t *testing.T) {
	t.Parallel()
	b := start(t)
	session := b.noted("dev")
	path := "/v1/threads/" + session.ThreadID
	_, screen := b.open(b.request(http.MethodGet, path+"/stream", ""))
	first, threadID := b.accepted(onThread(session.ThreadID)) // the archive knows nothing of it
	if threadID != session.ThreadID {
		t.Fatalf("the request is on thread %s, want %s", threadID, session.ThreadID)
	}
	b.run(first, input("more"), metadata(), done())
	if got := list(take(t, screen, 3)); got != "input metadata done" {
		t.Errorf("who waited for the first request saw %q", got)
	}
	second, _ := b.accepted(onThread(session.ThreadID))
	record, err := b.bus.Thread(t.Context(), "default", session.ThreadID)
	if err != nil || record.RequestID != second || record.Index != 1 {
		t.Errorf("the thread's record is %+v (%v), want the second request at index 1", record, err)
	}
}

func TestASessionWithoutARequestHasNoActions(t *testing.T) {
	t.Parallel()
	b := start(t)
	session := b.noted("dev")
	a := b.post("/v1/agents/demo/requests", resolving(session.ThreadID, "act_1"))
	if a.failure(t).Code != apierr.InvalidActionID {
		t.Errorf("got %d %s, want %s", a.status, a.body, apierr.InvalidActionID)
	}
}

func TestSessionOfAnotherOwnerIsDenied(t *testing.T) {
	t.Parallel()
	b := start(t)
	session := b.noted("another user")
	for _, a := range []answer{
		b.post("/v1/agents/demo/requests", onThread(session.ThreadID)),
		b.get("/v1/threads/" + session.ThreadID + "/stream"),
		b.do(b.request(http.MethodDelete, "/v1/threads/"+session.ThreadID, "")),
	} {
		if a.status != http.StatusForbidden || a.failure(t).Code != apierr.ThreadAccessDenied {
			t.Errorf("got %d %s, want 403", a.status, a.body)
		}
	}
}

func TestDeletedThreadDropsItsSession(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, requests := range []int{0, 1} {
		session := b.noted("dev")
		for range requests {
			requestID, _ := b.accepted(onThread(session.ThreadID))
			b.run(requestID, input("more"), metadata(), done())
		}
		path := "/v1/threads/" + session.ThreadID
		if a := b.do(b.request(http.MethodDelete, path, "")); a.status != http.StatusNoContent {
			t.Fatalf("with %d requests: got %d %s", requests, a.status, a.body)
		}
		left, err := b.bus.Session(t.Context(), "default", session.ThreadID)
		if err != nil || !left.Deleted || left.Name != "" || !left.UpdatedAt.After(session.UpdatedAt) {
			t.Errorf("with %d requests: what is noted is %+v (%v), want a tombstone", requests, left, err)
		}
		if a := b.post("/v1/agents/demo/requests", onThread(session.ThreadID)); a.failure(t).Code != apierr.ThreadNotFound {
			t.Errorf("with %d requests: a request got %d %s, want no thread", requests, a.status, a.body)
		}
	}
	requestID, threadID := b.accepted(hello)
	b.run(requestID, input("hi"), metadata(), done())
	if a := b.do(b.request(http.MethodDelete, "/v1/threads/"+threadID, "")); a.status != http.StatusNoContent {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if _, err := b.bus.Session(t.Context(), "default", threadID); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("a thread on which nothing was noted left a session (%v)", err)
	}
}
