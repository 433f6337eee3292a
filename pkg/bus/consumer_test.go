package bus

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/bus/projection"
	"github.com/agentbus/agentbus/pkg/record"
)

// unanswered is longer than one question to the broker waits for its answer.
const unanswered = 6 * time.Second

// TestConsumersAreOpenedWhenTheBrokerAnswers starts to read while the broker cannot be reached.
func TestConsumersAreOpenedWhenTheBrokerAnswers(t *testing.T) {
	t.Parallel()
	near, far, relay := behindRelay(t)
	relay.SetCut(true)
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	arrived := make(chan string, 2)
	readers.Go(func() {
		err := far.Project(ctx, nil, func(_ context.Context, batch []projection.Entry) ([]error, error) {
			arrived <- "an entry"
			cancel()
			return make([]error, len(batch)), nil
		})
		if err != nil {
			t.Errorf("the projection ended: %v", err)
		}
	})
	queued := make(chan struct{})
	readers.Go(func() {
		defer close(queued)
		work, done := context.WithCancel(t.Context())
		defer done()
		err := far.ConsumeRequests(work, 1, func(context.Context, record.Start) error {
			arrived <- "a pointer"
			done()
			return nil
		})
		if err != nil {
			t.Errorf("the queue ended: %v", err)
		}
	})
	if broker.Pause(ctx, unanswered) != nil {
		t.Fatal("something arrived without a broker")
	}
	relay.SetCut(false)
	accepted := record.Accepted{Tenant: "t", RequestID: "req_1", ThreadID: "thr_1", AgentID: "demo"}
	if _, _, err := near.Accept(t.Context(), accepted); err != nil {
		t.Fatal(err)
	}
	if err := near.Start(t.Context(), accepted, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-arrived:
		case <-time.After(30 * time.Second):
			t.Fatal("nothing arrives though the broker answers again")
		}
	}
	<-queued
}
