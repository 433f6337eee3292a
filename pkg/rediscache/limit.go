package rediscache

import (
	"context"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"golang.org/x/time/rate"
)

// Limit allows a number of calls in a time, and as many as Burst at once.
type Limit struct {
	Requests int
	Per      time.Duration
	Burst    int
}

// Decision is the answer to one call.
type Decision struct {
	Allowed    bool
	RetryAfter time.Duration // when it is not allowed: the wait until it would be
}

// Allow counts one call of key and says whether it is within l. Every member of l must be positive. It always decides:
// while Redis is away each process counts for itself.
func (s *Store) Allow(ctx context.Context, key string, l Limit) Decision {
	var result *redis_rate.Result
	err := s.do(func() (err error) {
		result, err = s.rate.Allow(ctx, key, redis_rate.Limit{Rate: l.Requests, Burst: l.Burst, Period: l.Per})
		return err
	})
	if err != nil {
		return s.local.allow(key, l)
	}
	return Decision{Allowed: result.Allowed > 0, RetryAfter: max(result.RetryAfter, 0)}
}

// maxLocal bounds how many keys a process counts for at once.
const maxLocal = 10_000

// localLimits count in this process.
type localLimits struct {
	mu    sync.Mutex
	byKey map[string]*rate.Limiter
}

func newLocalLimits() *localLimits { return &localLimits{byKey: map[string]*rate.Limiter{}} }

func (c *localLimits) allow(key string, l Limit) Decision {
	now := time.Now()
	r := c.limiter(key, l).ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait == 0 {
		return Decision{Allowed: true}
	}
	r.CancelAt(now)
	return Decision{RetryAfter: wait}
}

func (c *localLimits) limiter(key string, l Limit) *rate.Limiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.byKey[key]; ok {
		return found
	}
	if len(c.byKey) >= maxLocal {
		c.shrink()
	}
	made := rate.NewLimiter(rate.Limit(float64(l.Requests)/l.Per.Seconds()), l.Burst)
	c.byKey[key] = made
	return made
}

// shrink forgets half of the keys, first of all those that have their whole burst again, which loses nothing. It must
// be called with mu held.
func (c *localLimits) shrink() {
	for key, limiter := range c.byKey {
		if limiter.Tokens() >= float64(limiter.Burst()) {
			delete(c.byKey, key)
		}
	}
	for key := range c.byKey {
		if len(c.byKey) <= maxLocal/2 {
			return
		}
		delete(c.byKey, key)
	}
}
