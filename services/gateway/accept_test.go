package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
)

func TestBusyThreadNamesTheRunningRequest(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	for _, when := range []string{"queued", "running"} {
		a := b.post("/v1/agents/demo/stream", onThread(threadID))
		if a.status != http.StatusConflict || a.header.Get("X-Request-Id") != requestID {
			t.Fatalf("%s: got %d %s %v", when, a.status, a.body, a.header)
		}
		if f := a.failure(t); f.Code != apierr.ThreadBusy || !f.Retryable || f.RunningRequestID != requestID {
			t.Errorf("%s: got %s", when, a.body)
		}
		if when == "queued" {
			b.emit(b.claim(requestID), metadata())
		}
	}
	b.run(requestID, metadata(), done()) // takes over
	next, sameThread := b.accepted(onThread(threadID))
	record, err := b.bus.Thread(t.Context(), "default", threadID)
	if err != nil || sameThread != threadID || record.RequestID != next || record.Index != 1 {
		t.Errorf("got %+v, %v, want request %s with index 1", record, err, next)
	}
}

func TestALostPointerIsSentAgain(t *testing.T) {
	t.Parallel()
	b := start(t)
	// What a gateway leaves that dies between the thread's record and the pointer.
	a := record.Accepted{
		Tenant: "default", RequestID: id.New(id.Request), ThreadID: id.New(id.Thread), AgentID: "demo", Owner: "dev",
		Request: event.AgentRequest{Messages: []event.InputMessage{event.UserText("hi")}}, At: time.Now(),
	}
	if _, _, err := b.bus.Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	next := record.Thread{ThreadID: a.ThreadID, Owner: "dev", AgentID: "demo", RequestID: a.RequestID, At: time.Now()}
	if _, err := b.bus.AdvanceThread(t.Context(), "default", next, 0); err != nil {
		t.Fatal(err)
	}
	if got := b.post("/v1/agents/demo/requests", onThread(a.ThreadID)); got.status != http.StatusConflict {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	pointers := make(chan record.Start, 1)
	b.background(func(ctx context.Context) error {
		return b.bus.ConsumeRequests(ctx, 1, func(_ context.Context, s record.Start) error { pointers <- s; return nil })
	})
	want := record.Start{Tenant: "default", AgentID: "demo", RequestID: a.RequestID, ThreadID: a.ThreadID}
	select {
	case got := <-pointers:
		if got.Accepted == nil || got.Accepted.RequestID != a.RequestID {
			t.Errorf("the pointer carries %+v, want the request's record", got.Accepted)
		}
		if got.Accepted = nil; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Error("no pointer came")
	}
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.runs(metadata(), done())
	first := b.post("/v1/agents/demo/stream", hello, "Idempotency-Key", "k1")
	if first.status != http.StatusOK || first.header.Get("Idempotency-Replayed") != "" {
		t.Fatalf("got %d %s %v", first.status, first.body, first.header)
	}
	requestID := first.header.Get("X-Request-Id")
	tests := []struct {
		what, path, body, key string
		status                int
		replayed              bool
	}{
		{"the same call", "/v1/agents/demo/stream", hello, "k1", 200, true},
		{"the same call, spaced otherwise", "/v1/agents/demo/stream", `{ "messages": [{"content":"hi","role":"user"}] }`, "k1", 200, true},
		{"another body", "/v1/agents/demo/stream", `{"messages":[{"role":"user","content":"ho"}]}`, "k1", 422, false},
		{"another key", "/v1/agents/demo/stream", hello, "k2", 200, false},
		{"another route", "/v1/agents/demo/requests", hello, "k1", 202, true},
		{"an empty key", "/v1/agents/demo/stream", hello, "", 400, false},
		{"a key that is too long", "/v1/agents/demo/stream", hello, strings.Repeat("k", 256), 400, false},
		{"an odd key", "/v1/agents/demo/stream", hello, "a.>*$JS.API é", 200, false},
	}
	check := func(t *testing.T) {
		for _, test := range tests {
			a := b.post(test.path, test.body, "Idempotency-Key", test.key)
			if a.status != test.status {
				t.Errorf("%s: got %d %s, want %d", test.what, a.status, a.body, test.status)
				continue
			}
			if test.replayed && (a.header.Get("X-Request-Id") != requestID || a.header.Get("Idempotency-Replayed") != "true") {
				t.Errorf("%s: got %v, want request %s again", test.what, a.header, requestID)
			}
			if a.status == 422 && a.failure(t).Code != apierr.IdempotencyMismatch {
				t.Errorf("%s: got %s", test.what, a.body)
			}
			if !test.replayed && a.header.Get("X-Request-Id") == requestID {
				t.Errorf("%s: got the first request again", test.what)
			}
		}
	}
	check(t)
	for i := range tests { // what was new before is a retry now
		if tests[i].status < 300 && !tests[i].replayed {
			tests[i].key += "again"
		}
	}
	b.redis.FlushAll()
	check(t)
	for i := range tests {
		if tests[i].status < 300 && !tests[i].replayed {
			tests[i].key += "once more"
		}
	}
	b.redis.Close()
	check(t)
}

func TestManyCallsWithOneKeyAreOneRequest(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.runs(metadata(), done())
	const calls = 20
	answers := make([]answer, calls)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() { answers[i] = b.post("/v1/agents/demo/stream", hello, "Idempotency-Key", "same") })
	}
	all.Wait()
	fresh := 0
	for _, a := range answers {
		if a.status != http.StatusOK || a.header.Get("X-Request-Id") != answers[0].header.Get("X-Request-Id") || names(t, a.body) != "metadata done" {
			t.Errorf("got %d %s", a.status, a.body)
		}
		if a.header.Get("Idempotency-Replayed") == "" {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d calls say that they started the request, want 1", fresh)
	}
	records := 0
	for _, err := range b.bus.ThreadRecords(t.Context(), "default", answers[0].header.Get("X-Thread-Id"), 0) {
		if err != nil {
			t.Fatal(err)
		}
		records++
	}
	if records != 1 {
		t.Errorf("the thread has %d records, want 1", records)
	}
}

// A call is not in its own way: the same call may get its place on the thread between two looks.
func TestManyCallsWithOneKeyOnAThreadAreOneRequest(t *testing.T) {
	t.Parallel()
	b := start(t, withPolicies)
	for _, agent := range []string{"demo", "queue", "interrupt"} {
		for round := range 10 {
			first, threadID := b.accepted(hello)
			b.run(first, metadata(), done())
			answers := make([]answer, 10)
			var all sync.WaitGroup
			for i := range answers {
				all.Go(func() { answers[i] = b.send(agent, threadID, "Idempotency-Key", fmt.Sprint(agent, round)) })
			}
			all.Wait()
			requestID := answers[0].header.Get("X-Request-Id")
			for _, a := range answers {
				if a.status != http.StatusAccepted || a.header.Get("X-Request-Id") != requestID {
					t.Errorf("%s: got %d %s", agent, a.status, a.body)
				}
			}
			if _, err := b.bus.Aborted(t.Context(), b.log(requestID)); !errors.Is(err, bus.ErrNotFound) {
				t.Errorf("%s: the call has aborted itself: %v", agent, err)
			}
			if r := b.record(threadID); r.RequestID != requestID || r.Index != 1 {
				t.Errorf("%s: the thread's newest record is %+v", agent, r)
			}
		}
	}
}

// TestRetryContinuesAfterTheFirstCall leaves a call after each of its steps.
func TestRetryContinuesAfterTheFirstCall(t *testing.T) {
	t.Parallel()
	b := start(t)
	first := b.post("/v1/agents/demo/requests", hello, "Idempotency-Key", "steps")
	accepted, err := b.bus.Accepted(t.Context(), b.log(first.header.Get("X-Request-Id")))
	if err != nil {
		t.Fatal(err)
	}
	// The same call under other ids, as far as its record: a new bench knows nothing of the thread.
	other := start(t)
	if _, won, err := other.bus.Accept(t.Context(), accepted); err != nil || !won {
		t.Fatalf("got %v, %v", won, err)
	}
	for _, what := range []string{"after the record", "after the pointer"} {
		a := other.post("/v1/agents/demo/requests", hello, "Idempotency-Key", "steps")
		if a.status != http.StatusAccepted || a.header.Get("X-Request-Id") != accepted.RequestID || a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: got %d %s %v", what, a.status, a.body, a.header)
		}
	}
	record, err := other.bus.Thread(t.Context(), "default", accepted.ThreadID)
	if err != nil || record.RequestID != accepted.RequestID {
		t.Errorf("got %+v, %v", record, err)
	}
	other.runs(metadata(), done())
	if got := names(t, other.get("/v1/requests/"+accepted.RequestID+"/stream").body); got != "metadata done" {
		t.Errorf("got events %q", got)
	}
}

// paused makes a thread whose last request waits for an action, and returns the action.
func (b *bench) paused(expires time.Time) (threadID, actionID string) {
	b.t.Helper()
	requestID, threadID := b.accepted(hello)
	actionID = id.New(id.Action)
	b.run(requestID, metadata(), continuation(actionID, expires), actionRequired())
	return threadID, actionID
}

func TestActions(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	tests := []struct {
		what string
		do   func(b *bench) answer
		ok   bool
	}{
		{"an open action", func(b *bench) answer {
			threadID, actionID := b.paused(later)
			return b.post("/v1/agents/demo/requests", resolving(threadID, actionID))
		}, true},
		{"an action that never expires", func(b *bench) answer {
			threadID, actionID := b.paused(time.Time{})
			return b.post("/v1/agents/demo/requests", resolving(threadID, actionID))
		}, true},
		{"an action that expired a moment ago", func(b *bench) answer {
			threadID, actionID := b.paused(time.Now().Add(-time.Second))
			return b.post("/v1/agents/demo/requests", resolving(threadID, actionID))
		}, true},
		{"an action that expired", func(b *bench) answer {
			threadID, actionID := b.paused(time.Now().Add(-time.Minute))
			return b.post("/v1/agents/demo/requests", resolving(threadID, actionID))
		}, false},
		{"an unknown action", func(b *bench) answer {
			threadID, _ := b.paused(later)
			return b.post("/v1/agents/demo/requests", resolving(threadID, "act_unknown"))
		}, false},
		{"another thread's action", func(b *bench) answer {
			threadID, _ := b.paused(later)
			_, actionID := b.paused(later)
			return b.post("/v1/agents/demo/requests", resolving(threadID, actionID))
		}, false},
		{"an action that is being resolved", func(b *bench) answer {
			threadID, actionID := b.paused(later)
			b.accepted(resolving(threadID, actionID))
			return b.post("/v1/agents/demo/requests", resolving(threadID, actionID))
		}, false},
		{"an action that was resolved", func(b *bench) answer {
			threadID, actionID := b.paused(later)
			requestID, _ := b.accepted(resolving(threadID, actionID))
			b.run(requestID, metadata(), done())
			return b.post("/v1/agents/demo/requests", resolving(threadID, actionID))
		}, false},
		{"an action that a message superseded", func(b *bench) answer {
			threadID, actionID := b.paused(later)
			requestID, _ := b.accepted(onThread(threadID))
			b.run(requestID, metadata(), done())
			return b.post("/v1/agents/demo/requests", resolving(threadID, actionID))
		}, false},
		{"an action that was announced again", func(b *bench) answer {
			threadID, actionID := b.paused(later)
			requestID, _ := b.accepted(onThread(threadID))
			b.run(requestID, metadata(), continuation(actionID, later), actionRequired())
			return b.post("/v1/agents/demo/requests", resolving(threadID, actionID))
		}, true},
		{"one open action and one that is not", func(b *bench) answer {
			threadID, actionID := b.paused(later)
			body := strings.Replace(resolving(threadID, actionID), `[{"actionId"`,
				`[{"actionId":"act_unknown","status":"denied"},{"actionId"`, 1)
			return b.post("/v1/agents/demo/requests", body)
		}, false},
	}
	states := map[string]func(b *bench){
		"Redis as it is": func(*bench) {},
		"Redis gone":     func(b *bench) { b.redis.Close() },
	}
	for name, prepare := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			prepare(b)
			for _, test := range tests {
				a := test.do(b)
				if test.ok && a.status != http.StatusAccepted {
					t.Errorf("%s: got %d %s, want 202", test.what, a.status, a.body)
				}
				if !test.ok && (a.status != http.StatusBadRequest || a.failure(t).Code != apierr.InvalidActionID) {
					t.Errorf("%s: got %d %s, want invalid_action_id", test.what, a.status, a.body)
				}
			}
		})
	}
}

func TestActionsReadFromTheLogArePutBackIntoRedis(t *testing.T) {
	t.Parallel()
	b := start(t)
	threadID, actionID := b.paused(time.Now().Add(time.Hour))
	b.redis.FlushAll()
	b.accepted(resolving(threadID, actionID))
	if keys := b.redis.Keys(); !slices.ContainsFunc(keys, func(k string) bool { return strings.HasSuffix(k, actionID) }) {
		t.Errorf("Redis has %v, want the action %s", keys, actionID)
	}
}

func TestTwoClientsResolveAnActionConcurrently(t *testing.T) {
	t.Parallel()
	b := start(t)
	for round := range 100 {
		threadID, actionID := b.paused(time.Now().Add(time.Hour))
		var answers [2]answer
		var both sync.WaitGroup
		for i := range answers {
			both.Go(func() { answers[i] = b.post("/v1/agents/demo/requests", resolving(threadID, actionID)) })
		}
		both.Wait()
		slices.SortFunc(answers[:], func(a, b answer) int { return a.status - b.status })
		if answers[0].status != http.StatusAccepted || answers[1].status != http.StatusBadRequest ||
			answers[1].failure(t).Code != apierr.InvalidActionID {
			t.Fatalf("round %d: got %d %s and %d %s", round, answers[0].status, answers[0].body, answers[1].status, answers[1].body)
		}
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, _ := b.accepted(hello)
	path := "/v1/requests/" + requestID + "/abort"
	for _, when := range []string{"queued", "again", "running"} {
		a := b.post(path, "")
		if a.status != http.StatusAccepted || a.body != `{"requestId":"`+requestID+`","status":"aborting"}`+"\n" {
			t.Errorf("%s: got %d %s", when, a.status, a.body)
		}
		if when == "again" {
			b.emit(b.claim(requestID), metadata())
		}
	}
	if command, err := b.bus.Aborted(t.Context(), b.log(requestID)); err != nil || command.By != "dev" {
		t.Errorf("got %+v, %v", command, err)
	}
	b.run(requestID, event.Aborted{Reason: "asked"})
	a := b.post(path, "")
	if a.status != http.StatusConflict || a.failure(t).Code != apierr.RequestFinished {
		t.Errorf("after the end: got %d %s", a.status, a.body)
	}
}
