package bus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/record"
)

func TestOpenCountsTheRequestsOfATenantThatWaitOrRun(t *testing.T) {
	t.Parallel()
	b := open(t)
	counts := func(tenant string, want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			got, err := b.OpenRequests(t.Context(), tenant)
			if err == nil && got == want {
				return
			}
			if time.Now().After(deadline) { // a pointer that moves out of the backlog may count twice
				t.Fatalf("%d requests of %s are open, %v; want %d", got, tenant, err, want)
			}
		}
	}
	counts("a", 0)
	for i := range 5 {
		for _, tenant := range []string{"a", "b"} {
			a := record.Accepted{Tenant: tenant, AgentID: fmt.Sprint("agent", i%2), RequestID: fmt.Sprint(tenant, i)}
			if err := b.Start(t.Context(), a, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	counts("a", 5)
	ctx, cancel := context.WithCancel(t.Context())
	taken, end := make(chan struct{}), make(chan struct{})
	var queue sync.WaitGroup
	queue.Go(func() {
		err := b.ConsumeRequests(ctx, 2, func(context.Context, record.Start) error {
			taken <- struct{}{}
			<-end
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-taken
	<-taken
	counts("a", 5) // those that run count
	counts("b", 5)
	cancel()
	close(end)
	queue.Wait()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		a, errA := b.OpenRequests(t.Context(), "a")
		b, errB := b.OpenRequests(t.Context(), "b")
		if errA == nil && errB == nil && a+b == 8 { // two have ended, when the broker has processed the acknowledgements
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d and %d open requests, %v %v, want 8", a, b, errA, errB)
		}
	}
	counts("nobody", 0)
}
