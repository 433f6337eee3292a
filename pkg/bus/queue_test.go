package bus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/command"
)

// TestAQueueWithoutItsBrokerLeavesNothingBehind watches a queue for longer than one of its waits.
func TestAQueueWithoutItsBrokerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(server.Close)
	t.Cleanup(stop)
	b, err := Connect(t.Context(), Options{URL: server.URL(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Provision(t.Context(), Storage{Memory: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var queue sync.WaitGroup
	queue.Go(func() {
		if err := b.Starts(ctx, 4, func(context.Context, command.Start) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	defer queue.Wait()
	defer cancel()
	idle := b.nc.NumSubscriptions()
	for deadline := time.Now().Add(30 * time.Second); b.nc.NumSubscriptions() <= idle; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the queue does not pull")
		}
	}
	before := b.nc.NumSubscriptions()
	stop()
	// One may be left by a pull that is tried just when the connection goes.
	for end := time.Now().Add(3 * fetchWait); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if held := b.nc.NumSubscriptions(); held > before+1 {
			t.Fatalf("the queue holds %d subscriptions without its broker, and held %d with it", held, before)
		}
	}
}

func TestWaitingCountsWhatNoRunnerHasTaken(t *testing.T) {
	t.Parallel()
	b := open(t)
	waiting := func(want int64) {
		t.Helper()
		if got, err := b.Waiting(t.Context()); err != nil || got != want {
			t.Fatalf("%d requests wait, %v; want %d", got, err, want)
		}
	}
	waiting(0)
	for i := range 3 {
		a := command.Accepted{Tenant: "t", AgentID: "a", RequestID: fmt.Sprint("r", i)}
		if err := b.Start(t.Context(), a, 0); err != nil {
			t.Fatal(err)
		}
	}
	waiting(3)
	ctx, cancel := context.WithCancel(t.Context())
	taken := make(chan struct{})
	var queue sync.WaitGroup
	queue.Go(func() {
		err := b.Starts(ctx, 1, func(context.Context, command.Start) error {
			taken <- struct{}{}
			<-ctx.Done()
			return ErrLeave
		})
		if err != nil {
			t.Error(err)
		}
	})
	defer queue.Wait()
	defer cancel()
	<-taken
	waiting(2)
}
