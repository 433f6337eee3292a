package quota_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/quota"
)

// counts are what the queue, Redis and history count. They are safe for concurrent use.
type counts struct {
	mu     sync.Mutex
	queued map[string]int      // by tenant
	noted  map[string][]string // by key
	ended  map[string]bool     // by request
	bytes  map[string]int64    // by tenant and owner
	err    error               // of the queue and of history
	asked  int
}

func newCounts() *counts {
	return &counts{queued: map[string]int{}, noted: map[string][]string{}, ended: map[string]bool{}, bytes: map[string]int64{}}
}

// queue is the part of the bus.
type queue struct{ *counts }

func (q queue) OpenRequests(_ context.Context, tenant string) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked++
	return q.queued[tenant], q.err
}

func (q queue) Last(_ context.Context, log bus.LogID) (event.Frame, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended[log.RequestID] {
		return event.Frame{Names: []event.Name{event.NameDone}}, nil
	}
	return event.Frame{Names: []event.Name{event.NameText}}, nil
}

func (q queue) Accepted(context.Context, bus.LogID) (record.Accepted, error) {
	return record.Accepted{}, bus.ErrNotFound
}

// notes are the part of Redis.
type notes struct{ *counts }

func (n notes) Opened(_ context.Context, keyID, request string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noted[keyID] = append(n.noted[keyID], request)
}

func (n notes) Open(_ context.Context, keyID string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.noted[keyID]...)
}

func (n notes) Closed(_ context.Context, keyID string, requests ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var left []string
	for _, one := range n.noted[keyID] {
		closed := false
		for _, r := range requests {
			closed = closed || r == one
		}
		if !closed {
			left = append(left, one)
		}
	}
	n.noted[keyID] = left
}

// storage is the part of history.
type storage struct{ *counts }

func (s storage) Stored(_ context.Context, q historyapi.StoredQuery) (historyapi.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return historyapi.Stored{Bytes: s.bytes[q.Tenant+"/"+q.Owner]}, s.err
}

func quotas(l quota.Limits, c *counts) *quota.Quotas {
	return quota.New(l, queue{c}, notes{c}, storage{c})
}

var alice = auth.Principal{Tenant: "acme", Subject: "alice", KeyID: "ak_1"}

// enter enters a request that is accepted under an id.
func enter(t *testing.T, q *quota.Quotas, p auth.Principal, requestID string) error {
	t.Helper()
	done, err := q.Enter(t.Context(), p)
	if err == nil {
		done(requestID)
	}
	return err
}

// refused checks that an error is a refusal by a limit.
func refused(t *testing.T, what string, err error, limit string) {
	t.Helper()
	f, ok := errors.AsType[*apierr.Error](err)
	if !ok || f.Code != apierr.RateLimitExceeded || !strings.Contains(f.Message, limit) || f.RetryAfter == 0 {
		t.Errorf("%s: got %v, want a refusal by %s", what, err, limit)
	}
}

func TestTheQueueCountsTheRequestsOfATenant(t *testing.T) {
	t.Parallel()
	c := newCounts()
	q := quotas(quota.Limits{Tenant: 2}, c)
	c.queued["acme"] = 1
	if err := enter(t, q, alice, "req_1"); err != nil {
		t.Fatal(err)
	}
	c.queued["acme"] = 2
	refused(t, "at the limit", enter(t, q, alice, "req_2"), "tenantRequests")
	if err := enter(t, q, auth.Principal{Tenant: "globex", KeyID: "ak_2"}, "req_3"); err != nil {
		t.Errorf("another tenant: got %v", err)
	}
	c.queued["acme"] = 1
	if err := enter(t, q, alice, "req_4"); err != nil {
		t.Errorf("after one has ended: got %v", err)
	}
	c.err = errors.New("no leader")
	if err := enter(t, q, alice, "req_5"); err != nil {
		t.Errorf("while the queue does not answer: got %v, want that admission decides", err)
	}
}

func TestRequestsInFlightCount(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]quota.Limits{"of a tenant": {Tenant: 3}, "of a key": {Key: 3}} {
		q := quotas(limits, newCounts())
		var done []func(string)
		for i := range 3 {
			d, err := q.Enter(t.Context(), alice)
			if err != nil {
				t.Fatalf("%s: request %d: %v", name, i, err)
			}
			done = append(done, d)
		}
		if _, err := q.Enter(t.Context(), alice); err == nil {
			t.Errorf("%s: a fourth request in flight was accepted", name)
		}
		for _, d := range done {
			d("") // none was accepted
		}
	}
}

func TestAKeysRequestsThatHaveEndedDoNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounts()
		q := quotas(quota.Limits{Key: 2}, c)
		for i := range 2 {
			if err := enter(t, q, alice, fmt.Sprint("req_", i)); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, "at the limit", enter(t, q, alice, "req_2"), "keyRequests")
		if err := enter(t, q, auth.Principal{Tenant: "acme", Subject: "alice", KeyID: "ak_2"}, "req_3"); err != nil {
			t.Errorf("another key: got %v", err)
		}
		c.ended["req_0"] = true
		time.Sleep(2 * time.Second) // the count is remembered for a second
		if err := enter(t, q, alice, "req_4"); err != nil {
			t.Errorf("after one has ended: got %v", err)
		}
		refused(t, "at the limit again", enter(t, q, alice, "req_5"), "keyRequests")
	})
}

func TestStoredBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounts()
		q := quotas(quota.Limits{TenantBytes: 100, KeyBytes: 10}, c)
		c.bytes["acme/"], c.bytes["acme/alice"] = 99, 9
		for range 50 {
			if err := q.Store(t.Context(), alice); err != nil {
				t.Fatal(err)
			}
		}
		if c.asked != 2 {
			t.Errorf("history was asked %d times, want once for the tenant and once for the owner", c.asked)
		}
		c.bytes["acme/alice"] = 10
		time.Sleep(3 * time.Second) // the count is remembered for two
		refused(t, "the owner's bytes", q.Store(t.Context(), alice), "keyBytes")
		c.bytes["acme/"] = 100
		time.Sleep(3 * time.Second)
		refused(t, "the tenant's bytes", q.Store(t.Context(), alice), "tenantBytes")
		c.err, c.bytes["acme/"] = errors.New("history does not answer"), 0
		time.Sleep(3 * time.Second)
		refused(t, "the last count stays while history does not answer", q.Store(t.Context(), alice), "tenantBytes")
		if err := q.Store(t.Context(), auth.Principal{Tenant: "globex", Subject: "bob"}); err != nil {
			t.Errorf("a tenant that was never counted: got %v, want that it is accepted", err)
		}
	})
}

func TestWithoutLimitsNothingIsAsked(t *testing.T) {
	t.Parallel()
	c := newCounts()
	q := quotas(quota.Limits{}, c)
	if err := errors.Join(enter(t, q, alice, "req_1"), q.Store(t.Context(), alice)); err != nil || c.asked > 0 {
		t.Errorf("got %v and %d questions, want none", err, c.asked)
	}
}
