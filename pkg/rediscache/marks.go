package rediscache

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// MarkAborted stores that a client has aborted a request.
func (s *Store) MarkAborted(ctx context.Context, tenant, requestID string) error {
	return s.put(ctx, key("abort", tenant, requestID), "1")
}

// Aborted reports whether the end of a request was asked for. False says nothing: Redis may have lost the mark.
func (s *Store) Aborted(ctx context.Context, tenant, requestID string) (bool, error) {
	_, found, err := s.get(ctx, key("abort", tenant, requestID))
	return found, err
}

// Remember keeps, for a day, the hash of the body that came first under an idempotency key. The requestId derives from
// the key, so it stands for the key.
func (s *Store) Remember(ctx context.Context, tenant, requestID, bodyHash string) error {
	return s.put(ctx, key("idempotency", tenant, requestID), bodyHash)
}

// Recall returns what Remember kept. Not found says nothing.
func (s *Store) Recall(ctx context.Context, tenant, requestID string) (bodyHash string, found bool, err error) {
	return s.get(ctx, key("idempotency", tenant, requestID))
}

func (s *Store) put(ctx context.Context, key, value string) error {
	err := s.do(func() error { return s.redis.Set(ctx, key, value, remember).Err() })
	if err != nil {
		return fmt.Errorf("set %s: %w", key, err)
	}
	return nil
}

func (s *Store) get(ctx context.Context, key string) (value string, found bool, err error) {
	err = s.do(func() (err error) {
		value, err = s.redis.Get(ctx, key).Result()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("get %s: %w", key, err)
	}
	return value, true, nil
}
