// Package postgres keeps history in PostgreSQL, 14 or later: for more than one process, and for data that must outlive a
// machine.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/agentbus/agentbus/services/history/internal/store/sqlstore"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

var _ = store.Of[*Store]

// Store is a pool of connections to a database.
type Store struct {
	*sqlstore.Store
	pool *pgxpool.Pool
}

// Open connects to the database at url (postgres://user:password@host:port/name) and brings its tables up to date, one
// process at a time.
func Open(ctx context.Context, url string) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err) // pgx leaves the password out
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open PostgreSQL database %s: %w", config.ConnConfig.Database, err)
	}
	db := stdlib.OpenDBFromPool(pool)
	s := &Store{Store: sqlstore.New(db, db, dialect()), pool: pool}
	if err := migrate(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("open PostgreSQL database %s: %w", config.ConnConfig.Database, err), s.Close())
	}
	return s, nil
}

// Close ends the connections.
func (s *Store) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}

func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	return sqlstore.Migrate(ctx, goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
}

func dialect() sqlstore.Dialect {
	return sqlstore.Dialect{
		Keys:    `(SELECT * FROM unnest($1::text[], $2::text[]) AS t (tenant, id))`,
		KeyArgs: keyArgs,
		Locks:   true,
		Find:    "strpos",
		Insert:  insert,
		Refused: refused,
		Missing: missing,
		Migrate: migrate,
	}
}

func keyArgs(keys []sqlstore.Key) []any {
	tenants, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		tenants[i], ids[i] = k.Tenant, k.ID
	}
	return []any{tenants, ids}
}

// insert passes each column as an array, so that the statement is the same for any number of rows.
func insert(ctx context.Context, tx *sql.Tx, t sqlstore.Table, rows [][]any) error {
	arrays, columns := make([]string, len(t.Columns)), make([]any, len(t.Columns))
	for i, c := range t.Columns {
		arrays[i] = "$" + strconv.Itoa(i+1) + "::" + string(c.Type) + "[]"
		columns[i] = column(c.Type, rows, i)
	}
	_, err := tx.ExecContext(ctx, t.Into()+" SELECT * FROM unnest("+strings.Join(arrays, ", ")+")"+t.OnConflict(), columns...)
	return err
}

func column(t sqlstore.Type, rows [][]any, i int) any {
	switch t {
	case sqlstore.Integer:
		return gather[int64](rows, i)
	case sqlstore.Boolean:
		return gather[bool](rows, i)
	case sqlstore.Bytes:
		return gather[[]byte](rows, i)
	default:
		return gather[string](rows, i)
	}
}

func gather[T any](rows [][]any, i int) []T {
	values := make([]T, len(rows))
	for j, row := range rows {
		values[j] = row[i].(T)
	}
	return values
}

// refused finds data that the server rejects: the classes 22 (data exception) and 23 (integrity constraint violation).
func refused(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(e.Code, "22") || strings.HasPrefix(e.Code, "23"))
}

// missing finds the errors undefined_table and invalid_schema_name.
func missing(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "42P01" || e.Code == "3F000")
}
