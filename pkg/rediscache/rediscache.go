// Package rediscache caches data in Redis that may be lost: pending actions, abort marks, idempotency keys and rate
// limits. It is the only package that uses Redis.
//
// JetStream is authoritative, Redis is a cache. So a caller treats every error of this package as "unknown" and reads
// the log, and all calls are short: they take at most a few hundred milliseconds, and after a few failures in a row a
// circuit breaker returns [ErrAway] at once, until Redis is back.
package rediscache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/redact"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ErrAway means that Redis did not answer lately, and was not asked again.
var ErrAway = errors.New("redis is away")

// stepTimeout is how long one step of a call (dial, write, read, a free connection) may take.
const stepTimeout = 100 * time.Millisecond

// Store is a connection to Redis. It is safe for concurrent use.
type Store struct {
	redis   *redis.Client
	rate    *redis_rate.Limiter
	local   *localLimits
	breaker breaker
	open    localOpen
}

// Open returns a store on the Redis at url ("redis://[user:password@]host:port[/db]"; rediss for TLS, unix for a
// socket). Redis need not be up: it is dialled when it is first needed. Only a url that cannot be read is an error.
func Open(url string) (*Store, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redis url (redis://host:port is the form): %w", redact.Error(err))
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = stepTimeout, stepTimeout, stepTimeout, stepTimeout
	o.MaxRetries = -1 // the breaker decides
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(o)
	if err := redisotel.InstrumentTracing(client); err != nil {
		return nil, errors.Join(fmt.Errorf("trace redis: %w", err), client.Close())
	}
	return &Store{redis: client, rate: redis_rate.NewLimiter(client), local: newLocalLimits(), breaker: newBreaker()}, nil
}

// Close ends the connections.
func (s *Store) Close() error { return s.redis.Close() }

// Ping asks whether Redis is there, for status pages: no service needs it to be ready.
func (s *Store) Ping(ctx context.Context) error {
	return s.do(func() error { return s.redis.Ping(ctx).Err() })
}

// do runs call unless the breaker is open, and reports its result to the breaker. A missing key and a cancelled caller
// do not count as failures of Redis.
func (s *Store) do(call func() error) error {
	if !s.breaker.TryAcquirePermit() {
		return ErrAway
	}
	err := call()
	if err == nil || errors.Is(err, redis.Nil) {
		s.breaker.RecordSuccess()
		return err
	}
	if errors.Is(err, context.Canceled) {
		s.breaker.abandoned()
		return err
	}
	s.breaker.RecordFailure()
	return err
}

func key(kind, tenant, name string) string { return "agentbus:" + kind + ":" + tenant + ":" + name }
