// Package sqlstore is shared by the SQL databases of history: the tables, how a batch is folded into them (apply.go,
// fold.go), and the queries (read.go, events.go). A database adds a [Dialect] and its migrations.
//
// Frames are stored as they arrive, not events: most events are deltas, which are only read in order and all at once.
// In addition to the lines, a row has the data that decides whether it may match a query (row.go): the names of its
// events, whether any is more than a delta, and the bounds of their times. All other conditions are checked event by
// event while reading.
//
// All SQL uses $1-style parameters, which both PostgreSQL and SQLite support.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/pressly/goose/v3"
)

// Key names a thread or a request: ids are unique within their tenant.
type Key struct{ Tenant, ID string }

// Dialect is where the databases differ.
type Dialect struct {
	// Keys is a subselect with the columns tenant and id, one row for each key that KeyArgs passes from $1 on.
	Keys    string
	KeyArgs func([]Key) []any
	// Locks says that writers run side by side and must lock the rows that they read.
	Locks bool
	// Find is the function of a text and another that returns 0 when the first does not contain the second.
	Find string
	// Insert adds rows, each in the order of the table's columns.
	Insert func(ctx context.Context, tx *sql.Tx, t Table, rows [][]any) error
	// Refused reports whether err is about the data and not about the database's health.
	Refused func(err error) bool
	// Missing reports whether err says that a table does not exist.
	Missing func(err error) bool
	// Migrate creates the tables of db that do not exist, and brings the others up to date.
	Migrate func(ctx context.Context, db *sql.DB) error
}

// Store keeps history in a SQL database. It is safe for concurrent use.
type Store struct {
	write, read *sql.DB
	dialect     Dialect
}

// New returns a store on migrated databases. Write and read may be one and the same; Close closes them.
func New(write, read *sql.DB, d Dialect) *Store {
	return &Store{write: write, read: read, dialect: d}
}

// Ready reports why the database cannot be used, or nil.
func (s *Store) Ready(ctx context.Context) error {
	var one int
	if err := s.read.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	return nil
}

// Migrate brings the tables to what this build needs.
func (s *Store) Migrate(ctx context.Context) error { return s.dialect.Migrate(ctx, s.write) }

// Close ends the connections.
func (s *Store) Close() error {
	if s.read == s.write {
		return s.write.Close()
	}
	return errors.Join(s.write.Close(), s.read.Close())
}

// Migrate brings the tables of db to what this build needs. Processes that do so at the same time need a lock among the
// options.
func Migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, files fs.FS, options ...goose.ProviderOption) error {
	options = append(options, goose.WithDisableGlobalRegistry(true))
	provider, err := goose.NewProvider(dialect, db, files, options...)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate database: %w", err)
	}
	return nil
}

// explain adds the operation to an error, and marks errors for data that the database rejects and for missing tables.
func (s *Store) explain(err error, tried string) error {
	switch {
	case s.dialect.Refused(err):
		return fmt.Errorf("%s: %w: %w", tried, store.ErrRefused, err)
	case s.dialect.Missing(err):
		return fmt.Errorf("%s: %w: %w", tried, store.ErrNoTables, err)
	default:
		return fmt.Errorf("%s: %w", tried, err)
	}
}

// micros is t as the tables hold it; 0 stands for no time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
