package store

import (
	"context"
	"time"
)

// AddToken keeps the hash of a set-up token, and forgets those that have expired.
func (s *Store) AddToken(ctx context.Context, hash, tenant string, now, expires time.Time) error {
	if _, err := s.count(ctx, "forget old tokens", `DELETE FROM hub_tokens WHERE expires_at < $1`, millis(now)); err != nil {
		return err
	}
	return s.change(ctx, "add a set-up token",
		`INSERT INTO hub_tokens (hash, tenant, expires_at) VALUES ($1, $2, $3)`, hash, tenant, millis(expires))
}

// Token returns the tenant of a token that is good, or ErrNotFound.
func (s *Store) Token(ctx context.Context, hash string, now time.Time) (tenant string, err error) {
	return one(ctx, s, "look for a set-up token", func(row scanner) (tenant string, err error) {
		return tenant, row.Scan(&tenant)
	}, `SELECT tenant FROM hub_tokens WHERE hash = $1 AND expires_at >= $2`, hash, millis(now))
}

// UseToken takes a token out of use: of two that try, one gets ErrNotFound.
func (s *Store) UseToken(ctx context.Context, hash string) error {
	return s.change(ctx, "use a set-up token", `DELETE FROM hub_tokens WHERE hash = $1`, hash)
}
