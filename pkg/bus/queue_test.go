package bus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/bus/projection"
	"github.com/agentbus/agentbus/pkg/record"
)

// TestAQueueWithoutItsBrokerLeavesNothingBehind watches a queue for longer than one of its waits.
func TestAPullerWithoutItsBrokerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	pullers := map[string]func(context.Context, *Bus) error{
		"a queue": func(ctx context.Context, b *Bus) error {
			return b.ConsumeRequests(ctx, 4, func(context.Context, record.Start) error { return nil })
		},
		"the projection": func(ctx context.Context, b *Bus) error {
			return b.Project(ctx, nil, func(_ context.Context, batch []projection.Entry) ([]error, error) {
				return make([]error, len(batch)), nil
			})
		},
	}
	for name, pull := range pullers {
		t.Run(name, func(t *testing.T) {
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
			leavesNothingBehind(t, b, pull, stop)
		})
	}
}

// leavesNothingBehind starts a puller, takes its broker away, and counts its subscriptions for a while.
func leavesNothingBehind(t *testing.T, b *Bus, pull func(context.Context, *Bus) error, stop func()) {
	t.Helper()
	idle := b.conn.NATS.NumSubscriptions()
	ctx, cancel := context.WithCancel(t.Context())
	var puller sync.WaitGroup
	puller.Go(func() {
		if err := pull(ctx, b); err != nil {
			t.Error(err)
		}
	})
	defer puller.Wait()
	defer cancel()
	for deadline := time.Now().Add(30 * time.Second); b.conn.NATS.NumSubscriptions() <= idle; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is pulled")
		}
	}
	before := b.conn.NATS.NumSubscriptions()
	stop()
	// One may be left by a pull that is tried just when the connection goes.
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if held := b.conn.NATS.NumSubscriptions(); held > before+1 {
			t.Fatalf("%d subscriptions are held without the broker, and %d were with it", held, before)
		}
	}
}

func TestWaitingCountsWhatNoRunnerHasTaken(t *testing.T) {
	t.Parallel()
	b := open(t)
	waiting := func(want int64) { // a pointer that moves out of the backlog may count twice
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			got, err := b.QueueDepth(t.Context())
			if err == nil && got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d requests wait, %v; want %d", got, err, want)
			}
		}
	}
	waiting(0)
	for i := range 3 {
		a := record.Accepted{Tenant: "t", AgentID: "a", RequestID: fmt.Sprint("r", i)}
		if err := b.Start(t.Context(), a, 0); err != nil {
			t.Fatal(err)
		}
	}
	waiting(3)
	ctx, cancel := context.WithCancel(t.Context())
	taken := make(chan struct{})
	var queue sync.WaitGroup
	queue.Go(func() {
		err := b.ConsumeRequests(ctx, 1, func(context.Context, record.Start) error {
			taken <- struct{}{}
			<-ctx.Done()
			return broker.ErrLeave
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
