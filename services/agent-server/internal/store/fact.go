package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Key is a key that clients may use, as a hash.
type Key struct {
	Hash      string
	Sealed    string // the key itself, encrypted; "" = it is not needed
	AddedAt   time.Time
	ExpiresAt time.Time // zero = never
}

// Keys returns the keys that rotations have added or retired, the newest first.
func (s *Store) Keys(ctx context.Context) ([]Key, error) {
	keys, err := collect(ctx, s.db, scanKey, "SELECT hash, sealed, added_at, expires_at FROM keys ORDER BY added_at DESC, hash")
	return keys, describe(err, "read keys")
}

// PlainKeys returns the keys that an earlier version stored in plain text, in Hash. PutKeys removes them.
func (s *Store) PlainKeys(ctx context.Context) ([]Key, error) {
	keys, err := collect(ctx, s.db, scanKey, "SELECT secret, '', added_at, expires_at FROM plain_keys ORDER BY added_at DESC, secret")
	return keys, describe(err, "read keys in plain text")
}

func scanKey(rows *sql.Rows) (k Key, err error) {
	var added int64
	var expires sql.NullInt64
	err = rows.Scan(&k.Hash, &k.Sealed, &added, &expires)
	k.AddedAt = time.UnixMilli(added)
	if expires.Valid {
		k.ExpiresAt = time.UnixMilli(expires.Int64)
	}
	return k, err
}

// PutKeys stores keys, all or none, and removes those in plain text. A key that is stored already gets the new expiry
// and the new sealed text.
func (s *Store) PutKeys(ctx context.Context, keys []Key) error {
	err := s.within(ctx, func(tx *sql.Tx) error {
		for _, k := range keys {
			expires := sql.NullInt64{Int64: millis(k.ExpiresAt), Valid: !k.ExpiresAt.IsZero()}
			_, err := tx.ExecContext(ctx, `INSERT INTO keys (hash, sealed, added_at, expires_at) VALUES ($1, $2, $3, $4)
				ON CONFLICT (hash) DO UPDATE SET sealed = excluded.sealed, expires_at = excluded.expires_at`,
				k.Hash, k.Sealed, millis(k.AddedAt), expires)
			if err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM plain_keys")
		return err
	})
	return describe(err, "store keys")
}

// Fact gives what is remembered under a name; "" = nothing.
func (s *Store) Fact(ctx context.Context, name string) (value string, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT value FROM facts WHERE name = $1", name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, describe(err, "read "+name)
}

// PutFact remembers value under a name.
func (s *Store) PutFact(ctx context.Context, name, value string) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO facts (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
	if err != nil {
		return fmt.Errorf("remember %s: %w", name, err)
	}
	return nil
}
