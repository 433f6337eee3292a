package quota

import (
	"context"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"golang.org/x/sync/singleflight"
)

// Storage counts stored bytes. A historyapi.Client is one.
type Storage interface {
	Stored(ctx context.Context, q historyapi.StoredQuery) (historyapi.Stored, error)
}

const (
	// storedCacheTime is how long a count of stored bytes is reused.
	storedCacheTime = 2 * time.Second
	// storedTimeout limits the query of the count, which requests wait for.
	storedTimeout = time.Second
	// storedRetryAfter is the Retry-After of a refusal. Data is not removed automatically, so that an earlier attempt
	// fails unless threads are deleted.
	storedRetryAfter = time.Minute
)

// storedCache caches the stored bytes of tenants and owners. It is safe for concurrent use.
type storedCache struct {
	storage  Storage
	requests singleflight.Group

	mu     sync.Mutex
	counts map[historyapi.StoredQuery]storedCount
}

// storedCount is a count and its time.
type storedCount struct {
	bytes int64
	at    time.Time
}

// Store refuses with apierr.RateLimitExceeded to store more for p if its tenant, or p itself, has reached the quota.
// The counts come from history and are at most a few seconds old. While history does not answer, the last count
// applies; without one, p is admitted.
func (q *Quotas) Store(ctx context.Context, p auth.Principal) error {
	for _, limit := range []struct {
		name, whose string
		most        int64
		of          historyapi.StoredQuery
	}{
		{"tenantBytes", "your tenant has", q.limits.TenantBytes, historyapi.StoredQuery{Tenant: p.Tenant}},
		{"keyBytes", "you have", q.limits.KeyBytes, historyapi.StoredQuery{Tenant: p.Tenant, Owner: p.Subject}},
	} {
		if limit.most == 0 || q.stored.bytes(ctx, limit.of) < limit.most {
			continue
		}
		f := refusal("%s: %s the %d bytes stored that are allowed; delete threads, or ask the operator for more: waiting frees nothing",
			limit.name, limit.whose, limit.most)
		f.Retryable, f.RetryAfter = false, storedRetryAfter
		return f
	}
	return nil
}

func (s *storedCache) bytes(ctx context.Context, of historyapi.StoredQuery) int64 {
	s.mu.Lock()
	last := s.counts[of]
	s.mu.Unlock()
	if time.Since(last.at) < storedCacheTime {
		return last.bytes
	}
	counted, _, _ := s.requests.Do(of.Tenant+"/"+of.Owner, func() (any, error) {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), storedTimeout)
		defer cancel()
		if answer, err := s.storage.Stored(asking, of); err == nil {
			last.bytes = answer.Bytes
		}
		s.store(of, storedCount{last.bytes, time.Now()}) // also without an answer, so that not every request waits for one
		return last.bytes, nil
	})
	return counted.(int64)
}

func (s *storedCache) store(of historyapi.StoredQuery, a storedCount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.counts) >= maxUsages {
		for other, known := range s.counts {
			if time.Since(known.at) >= storedCacheTime {
				delete(s.counts, other)
			}
		}
	}
	if len(s.counts) >= maxUsages {
		clear(s.counts)
	}
	s.counts[of] = a
}
