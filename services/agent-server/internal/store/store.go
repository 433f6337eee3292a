// Package store keeps the state of an agent-server in a SQLite file: tasks with their events, sessions with the state
// of their agents, and keys.
//
// Read task.go for tasks, record.go for their events, session.go for sessions, fact.go for the rest.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/agentbus/agentbus/pkg/sqldb"
)

//go:embed migrations/*.sql
var migrations embed.FS

var (
	// ErrNotFound reports that an object does not exist and never did.
	ErrNotFound = errors.New("not found")
	// ErrGone says that there was a task, and it was removed for its age.
	ErrGone = errors.New("gone")
)

// Store keeps everything of one agent. It is safe for concurrent use.
type Store struct{ db *sql.DB }

// Open opens or creates the file at path.
func Open(ctx context.Context, path string) (*Store, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	db, err := sqldb.Open(ctx, "sqlite:"+path, sqldb.Schema{Files: files, Version: "agent_version"})
	if err != nil {
		return nil, err
	}
	return &Store{db}, nil
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// Ready reports why the file cannot be used, or nil.
func (s *Store) Ready(ctx context.Context) error {
	var one int
	if err := s.db.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	return nil
}

// within runs do in a transaction.
func (s *Store) within(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	if err := do(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit a transaction: %w", err)
	}
	return nil
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// collect scans the rows of a query.
func collect[T any](ctx context.Context, db *sql.DB, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

func millis(t time.Time) int64 { return t.UnixMilli() }
