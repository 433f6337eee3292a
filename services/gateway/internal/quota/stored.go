package quota

import (
	"context"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"golang.org/x/sync/singleflight"
)

// Storage counts what is stored. A historyapi.Client does.
type Storage interface {
	Stored(ctx context.Context, q historyapi.StoredQuery) (historyapi.Stored, error)
}

const (
	// recent is how long a count of stored bytes is used again.
	recent = 2 * time.Second
	// storagePatience bounds the question to the storage, for which requests wait.
	storagePatience = time.Second
	// lookAgain is the Retry-After of a refusal. Nothing is removed by itself, so that an earlier attempt would be of no use
	// unless threads are deleted meanwhile.
	lookAgain = time.Minute
)

// stock remembers how many bytes are stored of tenants and of owners. It is safe for concurrent use.
type stock struct {
	storage Storage
	asking  singleflight.Group

	mu    sync.Mutex
	known map[historyapi.StoredQuery]amount
}

// amount is a count, and when it was asked for.
type amount struct {
	bytes int64
	at    time.Time
}

// Store refuses with apierr.RateLimitExceeded what would store more for p while its tenant, or p itself, has as many bytes
// stored as it may have. The counts are those of history, at most a few seconds old. While history does not answer, the last
// one counts, and what was never counted is let in.
func (q *Quotas) Store(ctx context.Context, p auth.Principal) error {
	for _, limit := range []struct {
		name, whose string
		most        int64
		of          historyapi.StoredQuery
	}{
		{"tenantBytes", "your tenant has", q.limits.TenantBytes, historyapi.StoredQuery{Tenant: p.Tenant}},
		{"keyBytes", "you have", q.limits.KeyBytes, historyapi.StoredQuery{Tenant: p.Tenant, Owner: p.Subject}},
	} {
		if limit.most == 0 || q.stock.bytes(ctx, limit.of) < limit.most {
			continue
		}
		f := refusal("%s: %s the %d bytes stored that are allowed; delete threads, or ask the operator for more: waiting frees nothing",
			limit.name, limit.whose, limit.most)
		f.Retryable, f.RetryAfter = false, lookAgain
		return f
	}
	return nil
}

func (s *stock) bytes(ctx context.Context, of historyapi.StoredQuery) int64 {
	s.mu.Lock()
	last := s.known[of]
	s.mu.Unlock()
	if time.Since(last.at) < recent {
		return last.bytes
	}
	counted, _, _ := s.asking.Do(of.Tenant+"/"+of.Owner, func() (any, error) {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), storagePatience)
		defer cancel()
		if answer, err := s.storage.Stored(asking, of); err == nil {
			last.bytes = answer.Bytes
		}
		s.remember(of, amount{last.bytes, time.Now()}) // also without an answer, so that not every request waits for one
		return last.bytes, nil
	})
	return counted.(int64)
}

func (s *stock) remember(of historyapi.StoredQuery, a amount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxTallies {
		for other, known := range s.known {
			if time.Since(known.at) >= recent {
				delete(s.known, other)
			}
		}
	}
	if len(s.known) >= maxTallies {
		clear(s.known)
	}
	s.known[of] = a
}
