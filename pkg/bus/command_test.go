package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
)

func tellsOfCommands(t *testing.T, b *bus.Bus) {
	log := newLog()
	asked := func(after uint64, aborts bool, steers ...string) uint64 {
		t.Helper()
		c, err := b.CommandsAfter(t.Context(), log, after)
		if err != nil || (c.Abort != nil) != aborts || len(c.Steers) != len(steers) {
			t.Fatalf("got %+v, %v; want abort %t, steers %q", c, err, aborts, steers)
		}
		for i, s := range c.Steers {
			if s.SteerID != steers[i] {
				t.Fatalf("got steer %q, want %q", s.SteerID, steers[i])
			}
		}
		return c.Sequence
	}
	steer := func(steerID string) {
		t.Helper()
		s := record.Steer{RequestID: log.RequestID, SteerID: steerID, Messages: []event.InputMessage{event.UserText("x")}}
		if _, _, err := b.Steer(t.Context(), log.Tenant, s); err != nil {
			t.Fatal(err)
		}
	}
	asked(0, false)
	steer("one")
	first := asked(0, false, "one")
	if _, err := b.Abort(t.Context(), log.Tenant, record.Abort{RequestID: log.RequestID, By: "me"}); err != nil {
		t.Fatal(err)
	}
	steer("two") // the newest command hides no other
	last := asked(first, true, "two")
	asked(0, true, "one", "two")
	if again := asked(last, false); again != last {
		t.Errorf("behind the newest command, at %d, the next place is %d", last, again)
	}
}

// request is an accepted request of an agent of its own, so that tests may share the queue.
func request() record.Accepted {
	return record.Accepted{Tenant: "t", RequestID: id.New(id.Request), ThreadID: id.New(id.Thread), AgentID: "idle", At: time.Now()}
}

func saysWhetherPointed(t *testing.T, b *bus.Bus) {
	a := request()
	pointed := func(want bool) {
		t.Helper()
		if got, err := b.HasPointer(t.Context(), a); err != nil || got != want {
			t.Fatalf("pointed is %t, %v; want %t", got, err, want)
		}
	}
	pointed(false)
	if err := b.Start(t.Context(), a, 0); err != nil {
		t.Fatal(err)
	}
	pointed(true)
}

func keepsOnePointer(t *testing.T, b *bus.Bus) {
	a := request()
	if err := b.Start(t.Context(), a, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 3 {
		if held, err := b.StartLate(ctx, a); err != nil || held != 1 {
			t.Fatalf("the queue holds %d pointers to one request, %v; want 1", held, err)
		}
	}
}

func sendsCallAgain(t *testing.T, b *bus.Bus) {
	call := id.New(id.Call)
	for _, requestID := range []string{"first_" + call, "first_" + call, "second_" + call} {
		c := record.ToolCall{Tenant: "t", RequestID: requestID, ToolCallID: call, Tool: "x"}
		if err := b.CallTool(t.Context(), "tools", c); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan string, 8)
	done := make(chan error, 1)
	go func() {
		done <- b.ConsumeToolCalls(ctx, 1, func(_ context.Context, c record.ToolCall) error {
			got <- c.RequestID
			return nil
		})
	}()
	for _, want := range []string{"first_" + call, "second_" + call} {
		if have := <-got; have != want {
			t.Errorf("the call came for %s, want %s", have, want)
		}
	}
	cancel()
	if err := <-done; err != nil || len(got) > 0 {
		t.Errorf("%d more calls came; %v", len(got), err)
	}
}
