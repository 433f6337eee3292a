package bus_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
)

// ended counts how often each end was handled.
type ended struct {
	mu    sync.Mutex
	times map[string]int
}

func (e *ended) handle(_ context.Context, log bus.LogID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.times[log.RequestID]++
	return nil
}

func (e *ended) of(requestID string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.times[requestID]
}

// end writes a log, with a terminal event or without one.
func end(t *testing.T, b *bus.Bus, requestID string, bodies ...event.Body) {
	t.Helper()
	w, _, err := b.Claim(t.Context(), bus.LogID{Tenant: "acme", RequestID: requestID}, "test", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, body := range bodies {
		if err := w.Emit(body); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// followEnds follows the ends of requests until the test, or the returned function, ends it.
func followEnds(
	t *testing.T, b *bus.Bus, wanted func(context.Context) (bool, error), handle func(context.Context, bus.LogID) error,
) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	done.Go(func() {
		if err := b.FollowEnds(ctx, wanted, handle); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func always(context.Context) (bool, error) { return true, nil }

func awaitEnd(t *testing.T, e *ended, requestID string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); e.of(requestID) == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("the end of %s was not handled", requestID)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestEndsAreHandledOnceByTheProcessesThatFollow(t *testing.T) {
	t.Parallel()
	nats := bustest.NewServer(t)
	b := nats.Connect(t, "writer")
	all := &ended{times: map[string]int{}}
	for range 2 {
		followEnds(t, nats.Connect(t, "gateway"), always, all.handle)
	}
	open, last := id.New(id.Request), ""
	end(t, b, open, event.Metadata{AgentID: "demo"})
	for _, body := range []event.Body{event.Done{FinishReason: event.FinishStop}, event.Error{Message: "x"}, event.Aborted{}} {
		last = id.New(id.Request)
		end(t, b, last, event.Metadata{AgentID: "demo"}, body)
		awaitEnd(t, all, last)
	}
	if all.of(open) != 0 || all.of(last) != 1 {
		t.Errorf("got %v, want one call for each request that has ended", all.times)
	}
}

func TestEndsWaitUntilTheyAreWanted(t *testing.T) {
	t.Parallel()
	nats := bustest.NewServer(t)
	b := nats.Connect(t, "writer")
	all := &ended{times: map[string]int{}}
	requestID := id.New(id.Request)
	end(t, b, requestID, event.Done{FinishReason: event.FinishStop})
	asked := make(chan struct{}, 10)
	stop := followEnds(t, b, func(context.Context) (bool, error) {
		asked <- struct{}{}
		return false, nil
	}, all.handle)
	<-asked
	<-asked
	stop()
	if got := all.of(requestID); got != 0 {
		t.Errorf("the end was handled %d times although none is wanted", got)
	}
	followEnds(t, b, always, all.handle)
	awaitEnd(t, all, requestID)
}

func TestAnEndThatCannotBeHandledComesAgain(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	all := &ended{times: map[string]int{}}
	failed := make(chan struct{}, 1)
	followEnds(t, b, always, func(ctx context.Context, log bus.LogID) error {
		select {
		case failed <- struct{}{}:
			return errors.New("not now")
		default:
			return all.handle(ctx, log)
		}
	})
	requestID := id.New(id.Request)
	end(t, b, requestID, event.Done{FinishReason: event.FinishStop})
	awaitEnd(t, all, requestID)
}

func TestAChangeOfReceiversThatAnotherOnePrecededIsRefused(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p, revision, err := b.TaskPushes(t.Context(), "acme", "thr_1")
	if err != nil || revision != 0 || len(p.Configs) != 0 {
		t.Fatalf("got %+v, %d, %v, want an empty record", p, revision, err)
	}
	p.Configs = []bus.TaskPush{{ID: "a", TaskID: "req_1", URL: "https://a.example"}}
	if err := b.PutTaskPushes(t.Context(), p, revision); err != nil {
		t.Fatal(err)
	}
	if err := b.PutTaskPushes(t.Context(), p, revision); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
	if err := b.DeleteTaskPushes(t.Context(), "acme", "thr_1"); err != nil {
		t.Fatal(err)
	}
	p, revision, err = b.TaskPushes(t.Context(), "acme", "thr_1")
	if err != nil || revision == 0 || len(p.Configs) != 0 {
		t.Fatalf("after the deletion: got %+v, %d, %v, want an empty record with a revision", p, revision, err)
	}
	p.Configs = []bus.TaskPush{{ID: "b"}}
	if err := b.PutTaskPushes(t.Context(), p, revision); err != nil {
		t.Error(err)
	}
}
