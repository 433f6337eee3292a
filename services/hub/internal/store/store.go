// Package store keeps agents, their tasks and the set-up tokens in SQL, so that they survive a restart of the hub. The
// SQL works with SQLite and PostgreSQL.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/sqldb"
)

//go:embed migrations/*.sql
var migrations embed.FS

var (
	// ErrNotFound reports that the row does not exist.
	ErrNotFound = errors.New("not found in the hub's database")
	// ErrExists says that the name is taken.
	ErrExists = errors.New("it exists already")
)

// Store is safe for concurrent use.
type Store struct{ db *sql.DB }

// Open opens the database at address and brings its tables up to date.
func Open(ctx context.Context, address string) (*Store, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	db, err := sqldb.Open(ctx, address, sqldb.Schema{Files: files, Version: "hub_version"})
	if err != nil {
		return nil, err
	}
	return &Store{db}, nil
}

// Close ends the connections.
func (s *Store) Close() error { return s.db.Close() }

// Ready reports why the database cannot be used, or nil.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.db.PingContext(ctx); err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	return nil
}

// change runs a statement that must meet exactly one row.
func (s *Store) change(ctx context.Context, what, statement string, args ...any) error {
	n, err := s.count(ctx, what, statement, args...)
	if err == nil && n == 0 {
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return err
}

// count runs a statement and returns the number of affected rows.
func (s *Store) count(ctx context.Context, what, statement string, args ...any) (int64, error) {
	result, err := s.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, failed(what, err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, failed(what, err)
	}
	return n, nil
}

// comeBack is when a caller that met an outage of the database may try again.
const comeBack = time.Second

// failed says what failed. While the database cannot be reached it returns apierr.Unavailable with a time to come back.
func failed(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if !sqldb.Unreachable(err) {
		return err
	}
	f := apierr.Wrap(err, apierr.Unavailable, "the hub cannot reach its database; try again")
	f.RetryAfter = comeBack
	return f
}

// scanner is a row.
type scanner interface{ Scan(into ...any) error }

// collect reads all rows of a query.
func collect[T any](ctx context.Context, s *Store, what string, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, failed(what, err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, failed(what, err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		return nil, failed(what, err)
	}
	return all, nil
}

// one reads the only row of a query.
func one[T any](ctx context.Context, s *Store, what string, scan func(scanner) (T, error), query string, args ...any) (T, error) {
	value, err := scan(s.db.QueryRowContext(ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return value, fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	if err != nil {
		return value, failed(what, err)
	}
	return value, nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
