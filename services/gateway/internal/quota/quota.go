// Package quota limits how many requests a tenant, and an API key, may have open at one time, and how many bytes they
// may store.
//
// The open requests of a tenant are the pointers in its queue, so the count is correct for all gateways and after
// crashes. The requests of a key are noted in Redis when they are accepted; if their number reaches the limit, the logs
// decide which have ended. History counts the stored bytes (stored.go).
package quota

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"golang.org/x/sync/errgroup"
)

// Limits are the limits of open requests and stored bytes; 0 = no limit.
type Limits struct {
	Tenant, Key           int
	TenantBytes, KeyBytes int64 // KeyBytes is per principal: all its keys reach the same threads
}

// Bus counts open requests and reads logs.
type Bus interface {
	OpenRequests(ctx context.Context, tenant string) (int, error)
	Last(ctx context.Context, log bus.LogID) (event.Frame, error)
	Accepted(ctx context.Context, log bus.LogID) (record.Accepted, error)
}

// OpenRequests stores which requests keys have started. A *rediscache.Store is one.
type OpenRequests interface {
	Opened(ctx context.Context, keyID, request string)
	Open(ctx context.Context, keyID string) []string
	Closed(ctx context.Context, keyID string, requests ...string)
}

const (
	// cacheTime is how long a count below half of the limit is reused, together with the requests that this gateway has
	// admitted since.
	cacheTime = time.Second
	// recheckPause is how long a key at its limit is refused before its requests are checked again.
	recheckPause = time.Second
	// retryAfter is the Retry-After of a refusal.
	retryAfter = 5 * time.Second
	// maxUsages limits the tenants and keys whose usage a gateway caches.
	maxUsages = 10_000
	// parallelReads is how many logs are read concurrently.
	parallelReads = 16
)

// Quotas admit requests within limits. They are safe for concurrent use.
type Quotas struct {
	limits       Limits
	bus          Bus
	openRequests OpenRequests
	stored       storedCache

	mu      sync.Mutex
	tenants map[string]*usage
	keys    map[string]*usage
}

// usage is the cached usage of one tenant or key.
type usage struct {
	count    int       // the last count
	at       time.Time // time of the last count
	admitted int       // admitted since then
	inFlight int       // admitted, and not counted yet
}

// New returns quotas with the given limits.
func New(l Limits, b Bus, n OpenRequests, s Storage) *Quotas {
	return &Quotas{
		limits: l, bus: b, openRequests: n, stored: storedCache{storage: s, counts: map[historyapi.StoredQuery]storedCount{}},
		tenants: map[string]*usage{}, keys: map[string]*usage{},
	}
}

// Enter admits a request of p, or refuses it with apierr.RateLimitExceeded. Call done with the id of the accepted
// request, or with "" if it was not accepted. Requests that several gateways admit at the same instant may exceed a
// limit by their number.
func (q *Quotas) Enter(ctx context.Context, p auth.Principal) (done func(requestID string), err error) {
	leaveTenant, err := q.enterTenant(ctx, p.Tenant)
	if err != nil {
		return nil, err
	}
	leaveKey, err := q.enterKey(ctx, p)
	if err != nil {
		leaveTenant()
		return nil, err
	}
	return func(requestID string) {
		if requestID != "" && q.limits.Key > 0 && p.LimitID() != "" {
			q.openRequests.Opened(context.WithoutCancel(ctx), p.LimitID(), requestID)
		}
		leaveKey()
		leaveTenant()
	}, nil
}

func (q *Quotas) enterTenant(ctx context.Context, tenant string) (leave func(), err error) {
	if q.limits.Tenant == 0 {
		return func() {}, nil
	}
	q.mu.Lock()
	t := usageOf(q.tenants, tenant)
	known := t.count+t.admitted < q.limits.Tenant/2 && time.Since(t.at) < cacheTime
	q.mu.Unlock()
	count := 0
	if !known {
		if count, err = q.bus.OpenRequests(ctx, tenant); err != nil {
			return func() {}, nil // without the broker nothing is taken, and the refusal says why
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !known {
		t.count, t.at, t.admitted = count, time.Now(), t.inFlight
	}
	if t.count+t.admitted >= q.limits.Tenant {
		return nil, refusal("tenantRequests: your tenant has %d requests open; wait for one to end, or abort it", q.limits.Tenant)
	}
	return q.admit(t), nil
}

func (q *Quotas) enterKey(ctx context.Context, p auth.Principal) (leave func(), err error) {
	if q.limits.Key == 0 || p.LimitID() == "" {
		return func() {}, nil
	}
	q.mu.Lock()
	k := usageOf(q.keys, p.LimitID())
	full := k.count >= q.limits.Key && time.Since(k.at) < recheckPause
	q.mu.Unlock()
	open := q.limits.Key
	if !full {
		noted := q.openRequests.Open(ctx, p.LimitID())
		if open = len(noted); open >= q.limits.Key {
			open -= q.closeEnded(ctx, p, noted)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !full {
		k.count, k.at = open, time.Now()
	}
	if open+k.inFlight >= q.limits.Key {
		return nil, refusal("keyRequests: your key has %d requests open; wait for one to end, or abort it", q.limits.Key)
	}
	return q.admit(k), nil
}

// admit counts an admitted request until leave is called. It must be called with mu held.
func (q *Quotas) admit(t *usage) (leave func()) {
	t.admitted++
	t.inFlight++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		t.inFlight--
	}
}

// closeEnded removes those of a key's requests that have ended, and counts them.
func (q *Quotas) closeEnded(ctx context.Context, p auth.Principal, requests []string) int {
	var mu sync.Mutex
	var ended []string
	var look errgroup.Group
	look.SetLimit(parallelReads)
	for _, one := range requests {
		look.Go(func() error {
			if q.hasEnded(ctx, bus.LogID{Tenant: p.Tenant, RequestID: one}) {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, one)
			}
			return nil
		})
	}
	_ = look.Wait() // the functions return no errors
	q.openRequests.Closed(ctx, p.LimitID(), ended...)
	return len(ended)
}

// hasEnded reports whether a request has ended, or has expired from the bus.
func (q *Quotas) hasEnded(ctx context.Context, log bus.LogID) bool {
	last, err := q.bus.Last(ctx, log)
	if !errors.Is(err, bus.ErrNotFound) {
		return err == nil && last.Terminal()
	}
	_, err = q.bus.Accepted(ctx, log)
	return errors.Is(err, bus.ErrNotFound)
}

// usageOf returns the usage of a name. It must be called with mu held.
func usageOf(all map[string]*usage, name string) *usage {
	if t := all[name]; t != nil {
		return t
	}
	if len(all) >= maxUsages {
		for other, t := range all {
			if t.inFlight == 0 {
				delete(all, other)
			}
		}
	}
	t := new(usage)
	all[name] = t
	return t
}

func refusal(format string, args ...any) *apierr.Error {
	f := apierr.New(apierr.RateLimitExceeded, "limit "+format, args...)
	f.RetryAfter = retryAfter
	return f
}
