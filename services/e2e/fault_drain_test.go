package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// crew is clients that run one request after the other until they are stopped.
type crew struct {
	lab  lab
	stop chan struct{}
	wait sync.WaitGroup

	mu    sync.Mutex
	ended []transcript
	cuts  []*watch // responses that ended without a terminal event
	stall time.Duration
	errs  []error
}

// work starts so many clients that run body.
func (l lab) work(ctx context.Context, clients int, body string) *crew {
	c := &crew{lab: l, stop: make(chan struct{})}
	for i := range clients {
		c.wait.Go(func() {
			for turn := i; ; turn++ {
				select {
				case <-c.stop:
					return
				default:
					c.request(ctx, turn, body)
				}
			}
		})
	}
	return c
}

// request runs one request to its end, as a good client does: with a key, so that it may be sent again.
func (c *crew) request(ctx context.Context, turn int, body string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	key := header{"Idempotency-Key", newKey()}
	var w *watch
	for err := errors.New("not sent yet"); err != nil; turn++ {
		gateway := c.lab.Gateways[turn%len(c.lab.Gateways)]
		if w, err = try(ctx, http.MethodPost, gateway+"/v1/agents/demo/stream", body, key); ctx.Err() != nil {
			c.note(func() { c.errs = append(c.errs, err) })
			return
		}
	}
	<-w.done
	tr := w.seen()
	var err error
	if w.err != nil {
		c.note(func() { c.cuts = append(c.cuts, w) })
		tr, err = c.lab.persist(ctx, tr)
	}
	c.note(func() {
		c.stall = max(c.stall, w.stall())
		if err != nil {
			c.errs = append(c.errs, err)
			return
		}
		c.ended = append(c.ended, tr)
	})
}

func (c *crew) note(what func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what()
}

// end lets the clients finish what they run, and checks all that they have read.
func (c *crew) end(t *testing.T) {
	t.Helper()
	close(c.stop)
	c.wait.Wait()
	if len(c.errs) > 0 {
		t.Fatalf("%d requests did not end, the first: %v", len(c.errs), c.errs[0])
	}
	for _, tr := range c.ended {
		checkStream(t, tr)
		if d := tr.done(t); d.FinishReason != event.FinishStop || discarded(tr) != 0 {
			t.Errorf("request %s ended with %s and %d blocks begun again", tr.RequestID, d.FinishReason, discarded(tr))
		}
	}
}

// TestRollingStopsLoseNothing stops every process once, in order, while clients work.
func TestRollingStopsLoseNothing(t *testing.T) {
	l := newLab(t, setup{
		counts:   map[string]int{"gateway": 2, "agent-runner": 2, "tool-executor": 2, "history": 2},
		database: database(t), env: []string{"GRACE=15s"},
	})
	c := l.work(t.Context(), 10, prompt("/say before", `/tool echo {"text":"a b c","delay":"300ms"}`, "/stream 200 100", "/say after"))
	for _, name := range services {
		for _, p := range l.Processes(name) {
			began := time.Now()
			p.Stop()
			t.Logf("%s stopped in %s", name, time.Since(began).Round(time.Millisecond))
			start(t, p)
		}
	}
	c.end(t)
	if len(c.ended) < 20 || len(c.cuts) == 0 {
		t.Errorf("%d requests ended and %d streams were cut: the load was too small to show anything", len(c.ended), len(c.cuts))
	}
	for _, w := range c.cuts {
		if w.retry < 500*time.Millisecond || w.retry > 3*time.Second || !strings.Contains(string(w.tail), ": draining") {
			t.Errorf("a stream was cut with retry %s behind %q, want a time to come back and the reason", w.retry, w.tail)
		}
		if !strings.HasSuffix(string(w.tail), "\n\n") {
			t.Errorf("a stream was cut in the middle of an event: %q", w.tail)
		}
	}
	if c.stall > 5*time.Second {
		t.Errorf("a client waited %s: a request was taken over as after a crash", c.stall)
	}
	t.Logf("%d requests, %d streams cut, longest stall %s", len(c.ended), len(c.cuts), c.stall)
}

// TestAStoppedRunnerHandsOver stops a runner whose request takes longer than its grace period.
func TestAStoppedRunnerHandsOver(t *testing.T) {
	l := newLab(t, setup{counts: map[string]int{"agent-runner": 2}, database: database(t), env: []string{"GRACE=15s"}})
	works, waits := l.alone(t, "agent-runner")
	lines := make([]string, 0, 80)
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("/say step %d", i), `/tool echo {"text":"x","delay":"500ms"}`)
	}
	w := l.post(t, 0, prompt(lines...))
	w.until(t, 20)
	start(t, waits)
	began := time.Now()
	works.Stop()
	stopped := time.Since(began)
	tr := w.end(t, 2*time.Minute)
	if d := l.finished(t, tr); d.FinishReason != event.FinishMaxTurns && d.FinishReason != event.FinishStop {
		t.Errorf("got %s", d.FinishReason)
	}
	if discarded(tr) != 0 || w.stall() > 5*time.Second || stopped > 14*time.Second {
		t.Errorf("stopped in %s, %d blocks begun again, longest stall %s: want a hand-over at a step's edge",
			stopped, discarded(tr), w.stall())
	}
	if metric(t, waits, "agentbus_runs_total", "") != 1 {
		t.Error("the other runner did not continue the request")
	}
	t.Logf("stopped in %s, longest stall %s", stopped.Round(time.Millisecond), w.stall())
}
