package gateway_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/go-json-experiment/json"
)

// withPolicies adds an agent for each policy, in addition to demo, which rejects. Two requests may wait.
func withPolicies(d *gateway.Deps) {
	for _, policy := range []string{config.OnBusyQueue, config.OnBusyInterrupt} {
		d.Config.Agents[policy] = config.Agent{Backend: "scripted", OnBusy: policy, Queue: 2}
	}
	demo := d.Config.Agents["demo"]
	demo.Queue = 2
	d.Config.Agents["demo"] = demo
}

// send makes a request of an agent on a thread.
func (b *bench) send(agent, threadID string, headers ...string) answer {
	b.t.Helper()
	return b.post("/v1/agents/"+agent+"/requests", onThread(threadID), headers...)
}

// queued is send where it must work.
func (b *bench) queued(agent, threadID string, headers ...string) (requestID string) {
	b.t.Helper()
	a := b.send(agent, threadID, headers...)
	if a.status != http.StatusAccepted || !strings.Contains(a.body, `"status":"queued"`) {
		b.t.Fatalf("got %d %s", a.status, a.body)
	}
	return a.header.Get("X-Request-Id")
}

// refused checks that an answer says that the thread is busy with a request.
func (b *bench) refused(what string, a answer, running string) {
	b.t.Helper()
	if a.status != http.StatusConflict || a.header.Get("X-Request-Id") != running {
		b.t.Errorf("%s: got %d %s, want 409 with %s", what, a.status, a.body, running)
		return
	}
	if f := a.failure(b.t); f.Code != apierr.ThreadBusy || f.RunningRequestID != running {
		b.t.Errorf("%s: got %s, want thread_busy with %s", what, a.body, running)
	}
}

// pointed takes the pointers that come, and returns the requests that they point at so far.
func (b *bench) pointed() func() []string {
	var mu sync.Mutex
	var requests []string
	b.background(func(ctx context.Context) error {
		return b.bus.ConsumeRequests(ctx, 1, func(_ context.Context, s record.Start) error {
			mu.Lock()
			defer mu.Unlock()
			requests = append(requests, s.RequestID)
			return nil
		})
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(requests)
	}
}

// pointers waits until just these requests have been pointed at, in any order.
func (b *bench) pointers(pointed func() []string, want ...string) {
	b.t.Helper()
	slices.Sort(want)
	b.eventually("the pointers have come", func() bool { return len(pointed()) >= len(want) })
	if got := slices.Sorted(slices.Values(pointed())); !slices.Equal(got, want) {
		b.t.Errorf("got pointers to %v, want %v", got, want)
	}
}

// startNext does what a runner does that has ended the index-th request of a thread.
func (b *bench) startNext(threadID string, index int) {
	b.t.Helper()
	newest, err := b.bus.Thread(b.t.Context(), "default", threadID)
	if err != nil {
		b.t.Fatal(err)
	}
	if newest.Index <= index {
		return
	}
	for record, err := range b.bus.ThreadRecords(b.t.Context(), "default", threadID, 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		if record.Index != index+1 {
			continue
		}
		accepted, err := b.bus.Accepted(b.t.Context(), b.log(record.RequestID))
		if err == nil {
			err = b.bus.Start(b.t.Context(), accepted, record.Index)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) record(threadID string) bus.ThreadRecord {
	b.t.Helper()
	record, err := b.bus.Thread(b.t.Context(), "default", threadID)
	if err != nil {
		b.t.Fatal(err)
	}
	return record
}

func (b *bench) status(requestID string) historyapi.Status {
	b.t.Helper()
	var q historyapi.Request
	if err := json.Unmarshal([]byte(b.get("/v1/requests/"+requestID).body), &q); err != nil {
		b.t.Fatal(err)
	}
	return q.Status
}

func aborted() event.Body { return event.Aborted{Reason: "asked"} }

func TestRequestsWaitTheirTurnOnAThread(t *testing.T) {
	t.Parallel()
	b := start(t, withPolicies)
	pointed := b.pointed()
	first, threadID := b.accepted(hello)
	second, third := b.queued("queue", threadID), b.queued("queue", threadID)
	if r := b.record(threadID); r.RequestID != third || r.Index != 2 || r.Behind != 2 {
		t.Errorf("got record %+v, want the third request, two behind the first", r)
	}
	b.refused("the queue is full before the first has begun", b.send("queue", threadID), first)
	w := b.claim(first)
	b.emit(w, metadata())
	b.refused("the queue is full", b.send("queue", threadID), first)
	for _, waiting := range []string{second, third} {
		if s := b.status(waiting); s != historyapi.StatusQueued {
			t.Errorf("a waiting request is %s", s)
		}
	}
	b.pointers(pointed, first) // none to those that wait

	b.emit(w, done())
	fourth := b.queued("queue", threadID) // there is room again, and the second lacks its pointer
	if r := b.record(threadID); r.Index != 3 || r.Behind != 2 {
		t.Errorf("got record %+v, want one that is two behind the second", r)
	}
	b.pointers(pointed, first, second)
	b.run(second, metadata(), done())
	b.startNext(threadID, 1)
	b.run(third, metadata(), done())
	b.startNext(threadID, 2)
	b.run(fourth, metadata(), done())
	b.startNext(threadID, 3)
	b.pointers(pointed, first, second, third, fourth)
	if b.queued("queue", threadID); b.record(threadID).Behind != 0 {
		t.Errorf("a request on a free thread is %d behind", b.record(threadID).Behind)
	}
}

// TestLastRunnerStartsTheNextRequest ends a request while another one comes in: the one who ends it or the gateway must
// start the second, and often both do.
func TestLastRunnerStartsTheNextRequest(t *testing.T) {
	t.Parallel()
	b := start(t, withPolicies)
	pointed := b.pointed()
	for round := range 100 {
		first, threadID := b.accepted(hello)
		w := b.claim(first)
		b.emit(w, metadata())
		var runner sync.WaitGroup
		runner.Go(func() {
			pause(time.Duration(round%20) * 100 * time.Microsecond)
			b.emit(w, done())
			b.startNext(threadID, 0)
		})
		second := b.queued("queue", threadID)
		runner.Wait()
		b.eventually("the second request is started", func() bool { return slices.Contains(pointed(), second) })
	}
}

func TestManyRequestsOnOneThreadAtOnce(t *testing.T) {
	t.Parallel()
	b := start(t, withPolicies, func(d *gateway.Deps) {
		d.Config.Agents["queue"] = config.Agent{Backend: "scripted", OnBusy: config.OnBusyQueue}
	})
	first, threadID := b.accepted(hello)
	answers := make([]answer, 12)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = b.send("queue", threadID) })
	}
	all.Wait()
	taken := 0
	for _, a := range answers {
		if a.status == http.StatusAccepted {
			taken++
			continue
		}
		b.refused("one too many", a, first)
	}
	if r := b.record(threadID); taken != config.DefaultQueue || r.Index != taken || r.Behind != taken {
		t.Errorf("%d requests wait, the newest is %+v, want %d", taken, r, config.DefaultQueue)
	}
}

// TestARetryOfAWaitingRequest repeats a call at each stage of its request.
func TestARetryOfAWaitingRequest(t *testing.T) {
	t.Parallel()
	b := start(t, withPolicies)
	pointed := b.pointed()
	first, threadID := b.accepted(hello)
	key := []string{"Idempotency-Key", "k"}
	second := b.queued("queue", threadID, key...)
	third := b.queued("queue", threadID)
	again := func(when string) {
		t.Helper()
		a := b.send("queue", threadID, key...)
		if a.status != http.StatusAccepted || a.header.Get("X-Request-Id") != second || a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: got %d %s", when, a.status, a.body)
		}
		if r := b.record(threadID); r.RequestID != third {
			t.Errorf("%s: the thread's newest record is %+v", when, r)
		}
	}
	again("while it waits")
	b.pointers(pointed, first)
	b.run(first, metadata(), done()) // and the runner dies before it starts the next
	again("when its turn has come")
	b.pointers(pointed, first, second)
	b.run(second, metadata(), done())
	again("when it has ended")
	b.pointers(pointed, first, second)
}

// TestARequestThatWaitedAndWasAborted leaves ended requests behind one that runs.
func TestARequestThatWaitedAndWasAborted(t *testing.T) {
	t.Parallel()
	b := start(t, withPolicies)
	pointed := b.pointed()
	first, threadID := b.accepted(hello)
	w := b.claim(first)
	b.emit(w, metadata())
	second, third := b.queued("queue", threadID), b.queued("queue", threadID)
	if a := b.post("/v1/requests/"+third+"/abort", ""); a.status != http.StatusAccepted {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	b.run(third, aborted()) // as the reaper does
	if s := b.status(second); s != historyapi.StatusQueued {
		t.Errorf("the second request is %s", s)
	}
	b.run(second, aborted())

	b.refused("on a thread whose newest requests have ended", b.send("demo", threadID), first)
	b.refused("the thread cannot be deleted", b.do(b.request(http.MethodDelete, "/v1/threads/"+threadID, "")), first)
	_, stream := b.open(b.request(http.MethodGet, "/v1/threads/"+threadID+"/stream", ""))
	if e := take(t, stream, 1)[0]; !strings.Contains(string(e.Data), first) {
		t.Errorf("the thread's stream begins with %s, want the request that runs", e.Data)
	}
	fourth := b.queued("queue", threadID)
	if r := b.record(threadID); r.Index != 3 || r.Behind != 3 {
		t.Errorf("got record %+v, want one that is three behind the first", r)
	}
	b.pointers(pointed, first)
	b.emit(w, done()) // and the runner dies before it starts the next
	b.refused("the fourth has its turn", b.send("demo", threadID), fourth)
	b.pointers(pointed, first, fourth)
	b.run(fourth, metadata(), done())
	if a := b.send("demo", threadID); a.status != http.StatusAccepted || b.record(threadID).Behind != 0 {
		t.Errorf("on a free thread: got %d %s", a.status, a.body)
	}
}

func TestAnInterruptEndsWhatRunsAndWhatWaits(t *testing.T) {
	t.Parallel()
	b := start(t, withPolicies)
	pointed := b.pointed()
	first, threadID := b.accepted(hello)
	w := b.claim(first)
	b.emit(w, metadata())
	second := b.queued("queue", threadID)
	for _, requestID := range []string{first, second} {
		ended, err := b.bus.WatchAbort(t.Context(), b.log(requestID), func(a record.Abort) {
			writer := w
			if requestID == second {
				writer = b.claim(second)
			}
			b.emit(writer, event.Aborted{Reason: a.Reason})
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ended)
	}
	third := b.queued("interrupt", threadID)
	for _, requestID := range []string{first, second} {
		abort, err := b.bus.Aborted(t.Context(), b.log(requestID))
		if err != nil || abort.Reason != "interrupted" || abort.By != "dev" {
			t.Errorf("got %+v, %v", abort, err)
		}
		if got := b.get("/v1/requests/" + requestID + "/stream").body; !strings.Contains(got, `"reason":"interrupted"`) {
			t.Errorf("got %s", got)
		}
	}
	if r := b.record(threadID); r.RequestID != third || r.Behind != 0 {
		t.Errorf("got record %+v", r)
	}
	b.pointers(pointed, first, third)
	if b.run(third, metadata(), done()); b.queued("interrupt", threadID) == "" { // nothing to interrupt
		t.Error("a free thread takes no request")
	}
}

func TestAnInterruptGivesUp(t *testing.T) {
	t.Parallel()
	b := start(t, withPolicies)
	first, threadID := b.accepted(hello)
	b.emit(b.claim(first), metadata())
	b.refused("the first does not end", b.send("interrupt", threadID), first)
	if r := b.record(threadID); r.RequestID != first {
		t.Errorf("got record %+v", r)
	}
}

func TestActionResultsNeitherWaitNorInterrupt(t *testing.T) {
	t.Parallel()
	b := start(t, withPolicies)
	threadID, actionID := b.paused(time.Now().Add(time.Hour))
	running := b.queued("demo", threadID)
	for _, agent := range []string{"demo", "queue", "interrupt"} {
		b.refused(agent, b.post("/v1/agents/"+agent+"/requests", resolving(threadID, actionID)), running)
	}
	if _, err := b.bus.Aborted(t.Context(), b.log(running)); err == nil {
		t.Error("the running request was aborted")
	}

	threadID, actionID = b.paused(time.Now().Add(time.Hour))
	b.accepted(resolving(threadID, actionID))
	b.queued("queue", threadID)
	a := b.post("/v1/agents/queue/requests", resolving(threadID, actionID))
	if a.status != http.StatusBadRequest || a.failure(t).Code != apierr.InvalidActionID {
		t.Errorf("an action that a request resolves, with another one behind it: got %d %s", a.status, a.body)
	}
}

func TestQueuedRequestStreamsWhenStarted(t *testing.T) {
	t.Parallel()
	b := start(t, withPolicies, func(d *gateway.Deps) { d.Config.Gateway.Heartbeat = config.Duration(50 * time.Millisecond) })
	first, threadID := b.accepted(hello)
	resp, stream := b.open(b.request(http.MethodPost, "/v1/agents/queue/stream", onThread(threadID)))
	second := resp.Header.Get("X-Request-Id")
	b.run(first, metadata(), done())
	b.run(second, metadata(), delta("a"), done())
	if got := list(take(t, stream, 3)); got != "metadata text done" {
		t.Errorf("got %q", got)
	}
}
