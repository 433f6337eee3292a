// Package quota bounds how many requests a tenant, and an API key, may have open at one time, and how much they may store.
//
// The queue decides how many a tenant has: the pointers of its requests are counted there, so the count is right across
// gateways and after crashes. What a key has is noted in Redis when a request is taken; when that reaches the limit, the
// logs decide which of those have ended. How many bytes are stored is counted by history (stored.go).
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

// Limits are how many requests may be open, and how many bytes may be stored; 0 = any number.
type Limits struct {
	Tenant, Key           int
	TenantBytes, KeyBytes int64 // the latter of a principal: all its keys reach the same threads
}

// Bus knows what is open.
type Bus interface {
	OpenRequests(ctx context.Context, tenant string) (int, error)
	Last(ctx context.Context, log bus.LogID) (event.Frame, error)
	Accepted(ctx context.Context, log bus.LogID) (record.Accepted, error)
}

// Notes keep the requests that keys have begun. A *state.Store does.
type Notes interface {
	Opened(ctx context.Context, keyID, request string)
	Open(ctx context.Context, keyID string) []string
	Closed(ctx context.Context, keyID string, requests ...string)
}

const (
	// fresh is how long a count below half of the limit is used again, together with what this gateway has let in since.
	fresh = time.Second
	// pause is how long a key at its limit is refused before its requests are looked at again.
	pause = time.Second
	// comeBack is when a client that was refused may try again.
	comeBack = 5 * time.Second
	// maxTallies bounds how many tenants and keys a gateway remembers something about.
	maxTallies = 10_000
	// looks is how many logs are looked at side by side.
	looks = 16
)

// Quotas let requests in. They are safe for concurrent use.
type Quotas struct {
	limits Limits
	bus    Bus
	notes  Notes
	stock  stock

	mu      sync.Mutex
	tenants map[string]*tally
	keys    map[string]*tally
}

// tally is what a gateway knows of one tenant or key.
type tally struct {
	count  int       // when it was last counted
	at     time.Time // when that was
	since  int       // let in after that
	flight int       // let in, and not yet where they are counted
}

// New returns quotas.
func New(l Limits, b Bus, n Notes, s Storage) *Quotas {
	return &Quotas{
		limits: l, bus: b, notes: n, stock: stock{storage: s, known: map[historyapi.StoredQuery]amount{}},
		tenants: map[string]*tally{}, keys: map[string]*tally{},
	}
}

// Enter lets a request of p in, or refuses it with apierr.RateLimitExceeded. Call done when it has been taken, with its id,
// or with "" when it was not. Requests that several gateways let in at the same instant may exceed a limit by their number.
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
		if requestID != "" && q.limits.Key > 0 && p.KeyID != "" {
			q.notes.Opened(context.WithoutCancel(ctx), p.KeyID, requestID)
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
	t := find(q.tenants, tenant)
	known := t.count+t.since < q.limits.Tenant/2 && time.Since(t.at) < fresh
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
		t.count, t.at, t.since = count, time.Now(), t.flight
	}
	if t.count+t.since >= q.limits.Tenant {
		return nil, refusal("tenantRequests: your tenant has %d requests open; wait for one to end, or abort it", q.limits.Tenant)
	}
	return q.let(t), nil
}

func (q *Quotas) enterKey(ctx context.Context, p auth.Principal) (leave func(), err error) {
	if q.limits.Key == 0 || p.KeyID == "" {
		return func() {}, nil
	}
	q.mu.Lock()
	k := find(q.keys, p.KeyID)
	full := k.count >= q.limits.Key && time.Since(k.at) < pause
	q.mu.Unlock()
	open := q.limits.Key
	if !full {
		noted := q.notes.Open(ctx, p.KeyID)
		if open = len(noted); open >= q.limits.Key {
			open -= q.close(ctx, p, noted)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !full {
		k.count, k.at = open, time.Now()
	}
	if open+k.flight >= q.limits.Key {
		return nil, refusal("keyRequests: your key has %d requests open; wait for one to end, or abort it", q.limits.Key)
	}
	return q.let(k), nil
}

// let counts one that is let in, until leave. It must be called with mu held.
func (q *Quotas) let(t *tally) (leave func()) {
	t.since++
	t.flight++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		t.flight--
	}
}

// close removes those of a key's requests that have ended, and counts them.
func (q *Quotas) close(ctx context.Context, p auth.Principal, requests []string) int {
	var mu sync.Mutex
	var ended []string
	var look errgroup.Group
	look.SetLimit(looks)
	for _, one := range requests {
		look.Go(func() error {
			if q.ended(ctx, bus.LogID{Tenant: p.Tenant, RequestID: one}) {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, one)
			}
			return nil
		})
	}
	_ = look.Wait() // no look returns an error
	q.notes.Closed(ctx, p.KeyID, ended...)
	return len(ended)
}

// ended reports whether a request is known to have ended, or to be forgotten.
func (q *Quotas) ended(ctx context.Context, log bus.LogID) bool {
	last, err := q.bus.Last(ctx, log)
	if !errors.Is(err, bus.ErrNotFound) {
		return err == nil && last.Terminal()
	}
	_, err = q.bus.Accepted(ctx, log)
	return errors.Is(err, bus.ErrNotFound)
}

// find returns the tally of a name. It must be called with mu held.
func find(all map[string]*tally, name string) *tally {
	if t := all[name]; t != nil {
		return t
	}
	if len(all) >= maxTallies {
		for other, t := range all {
			if t.flight == 0 {
				delete(all, other)
			}
		}
	}
	t := new(tally)
	all[name] = t
	return t
}

func refusal(format string, args ...any) *apierr.Error {
	f := apierr.New(apierr.RateLimitExceeded, "limit "+format, args...)
	f.RetryAfter = comeBack
	return f
}
