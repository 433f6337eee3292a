package bus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/bus/records"
	"github.com/agentbus/agentbus/pkg/record"
)

func TestTheProjectionTellsHowFarItHasCome(t *testing.T) {
	t.Parallel()
	b := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	var projection sync.WaitGroup
	defer projection.Wait()
	defer cancel()
	var mu sync.Mutex
	refuse := errors.New("not now")
	projection.Go(func() {
		_ = b.Project(ctx, nil, func(_ context.Context, batch []Entry) ([]error, error) {
			mu.Lock()
			defer mu.Unlock()
			errs := make([]error, len(batch))
			for i, e := range batch {
				if e.ThreadID == "refused" {
					errs[i] = refuse
				}
			}
			return errs, nil
		})
	})
	reaches := func(head uint64) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			p, err := b.Projected(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if p.Through >= head {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("it stays at %+v, the stream ends at %d", p, head)
			}
			_ = broker.Pause(ctx, 5*time.Millisecond)
		}
	}
	head := func() uint64 {
		t.Helper()
		n, err := b.LastSequence(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	note := func(threadID string) {
		t.Helper()
		if _, err := b.UpdateSession(ctx, "t", record.Session{ThreadID: threadID}, records.SessionRecord{}); err != nil {
			t.Fatal(err)
		}
	}
	reaches(head())
	note("taken")
	reaches(head())
	// A message without a projection counts as done, although it is the newest of the stream.
	if _, err := b.Abort(ctx, "t", record.Abort{RequestID: "req"}); err != nil {
		t.Fatal(err)
	}
	reaches(head())
	before := head()
	note("refused")
	note("behind")
	for p, err := b.Projected(ctx); p.Again == 0; p, err = b.Projected(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		_ = broker.Pause(ctx, 5*time.Millisecond)
	}
	if p, err := b.Projected(ctx); err != nil || p.Through != before {
		t.Errorf("with a refused entry it is at %+v (%v), want %d", p, err, before)
	}
	mu.Lock()
	refuse = nil
	mu.Unlock()
	reaches(head())
}

func TestAProjectionThatLeavesSubjectsOutIsRefused(t *testing.T) {
	t.Parallel()
	b := open(t)
	consumer, err := b.conn.JetStream.Consumer(t.Context(), b.conn.EventsStream(), broker.HistoryConsumer)
	if err != nil {
		t.Fatal(err)
	}
	config := consumer.CachedInfo().Config
	config.FilterSubjects = []string{b.conn.Wildcard(broker.KindEvent), b.conn.Wildcard(broker.KindThread)}
	if _, err := b.conn.JetStream.UpdateConsumer(t.Context(), b.conn.EventsStream(), config); err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "no filter") {
		t.Errorf("got %v, want an error that says what must be", err)
	}
	if err := b.Provision(t.Context(), Storage{Memory: true}); err != nil {
		t.Errorf("it cannot be provisioned anew: %v", err)
	}
}
