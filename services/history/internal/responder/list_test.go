package responder

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/agentbus/agentbus/services/history/internal/store/storetest"
)

func TestAListGivesUpWhenTheProjectionStaysBehind(t *testing.T) {
	t.Parallel()
	b, l := bustest.New(t), storetest.NewLog("thr", 0)
	a := New(open(t).Reader, b, idle{}, idle{})
	all := historyapi.ThreadsQuery{Tenant: l.Tenant, Owner: l.Owner}
	if _, err := a.Threads(t.Context(), all); err != nil {
		t.Fatalf("nothing was written, and it says %v", err)
	}
	put(t, b, l, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := a.Threads(ctx, all); apierr.CodeOf(err) != apierr.Unavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}

func TestAListDoesNotStandStillForWhatTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	b, s, l := bustest.New(t), open(t), storetest.NewLog("thr", 0)
	if _, err := s.Apply(t.Context(), l.All(1), store.Known{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var projection sync.WaitGroup
	defer projection.Wait()
	defer cancel()
	projection.Go(func() {
		_ = b.Project(ctx, nil, func(_ context.Context, batch []bus.Entry) ([]error, error) {
			errs := make([]error, len(batch))
			for i := range errs {
				errs[i] = errors.New("refused")
			}
			return errs, nil
		})
	})
	put(t, b, l, 0)
	for deadline := time.Now().Add(20 * time.Second); ; { // the first answer may come before anything was refused twice
		page, err := New(s.Reader, b, idle{}, idle{}).Threads(ctx, historyapi.ThreadsQuery{Tenant: l.Tenant, Owner: l.Owner})
		if err == nil && len(page.Threads) == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, %v, want what is stored", page, err)
		}
	}
}
