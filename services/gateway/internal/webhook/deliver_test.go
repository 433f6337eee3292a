package webhook

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
	"go.opentelemetry.io/otel/metric/noop"
)

// stuck makes no notification before its context ends.
type stuck struct{}

func (stuck) Notification(ctx context.Context, _ bus.TaskPush, _ record.Delivery) (Notification, error) {
	<-ctx.Done()
	return Notification{}, ctx.Err()
}

func TestAnAttemptIsBounded(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	meter, err := metrics.New(noop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	pushes, err := NewPushes(b, nil, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(Deps{Bus: b, Tasks: stuck{}, Pushes: pushes, Meter: meter, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n.limit = 100 * time.Millisecond
	push := bus.TaskPush{ID: "c", TaskID: "req_1", URL: "https://example.com"}
	if err := pushes.Add(t.Context(), "acme", "thr_1", push); err != nil {
		t.Fatal(err)
	}
	d := record.Delivery{
		ID: "msg_1", Tenant: "acme", WebhookID: webhookID("acme", push), RequestID: "req_1", ThreadID: "thr_1", TaskID: "req_1", At: b.Now(),
	}
	err = n.deliver(t.Context(), d, 1) // without a deadline, as the queue passes it
	if retry, ok := errors.AsType[*bus.RetryError](err); !ok || retry.After < firstRetry/2 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want another attempt after the deadline", err)
	}
	if len(n.targets.busy) > 0 {
		t.Errorf("the attempt still counts for its host: %v", n.targets.busy)
	}
	d.At = b.Now().Add(-giveUp - time.Minute)
	if err := n.deliver(t.Context(), d, 20); err != nil {
		t.Errorf("after %s: got %v, want the end of the delivery", giveUp, err)
	}
}

func TestRetriesBecomeRareAndAreSpread(t *testing.T) {
	t.Parallel()
	for attempt, most := range map[int]time.Duration{
		1: 5 * time.Second, 2: 10 * time.Second, 5: 80 * time.Second, 10: 2560 * time.Second, 11: time.Hour, 1000: time.Hour,
	} {
		for range 100 {
			if got := retryDelay(attempt); got < most/2 || got > most {
				t.Errorf("attempt %d: got %s, want from %s to %s", attempt, got, most/2, most)
			}
		}
	}
}

func TestAHostOccupiesAPartOfTheDeliveries(t *testing.T) {
	t.Parallel()
	var all targets
	leaves := make([]func(), 0, perTarget)
	for range perTarget {
		leave, ok := all.enter("slow.example.com")
		if !ok {
			t.Fatal("a delivery was refused before the limit")
		}
		leaves = append(leaves, leave)
	}
	if _, ok := all.enter("slow.example.com"); ok {
		t.Error("the limit of a host has no effect")
	}
	if leave, ok := all.enter("other.example.com"); !ok {
		t.Error("a slow host delays another one")
	} else {
		leave()
	}
	for _, leave := range leaves {
		leave()
	}
	if len(all.busy) > 0 {
		t.Errorf("got %v after all deliveries have ended", all.busy)
	}
}
