// Package sqlite keeps history in a SQLite file: one process writes, and nothing needs to be installed. It is what
// agentbus dev uses.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/datadir"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/agentbus/agentbus/services/history/internal/store/sqlstore"
	"github.com/go-json-experiment/json"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Memory is the path of a database that lives as long as its store.
const Memory = ":memory:"

const (
	readers     = 4
	busyTimeout = 10 * time.Second
	// migrators is how many processes may start at the same time on an empty file.
	migrators = 10
	// block is how many rows one INSERT carries.
	block = 32
)

//go:embed migrations/*.sql
var migrations embed.FS

var _ = store.Of[*sqlstore.Store]

// Open opens or creates the database at path and brings its tables up to date.
func Open(ctx context.Context, path string) (*sqlstore.Store, error) {
	if path != Memory {
		if err := datadir.PrivateFile(path); err != nil {
			return nil, fmt.Errorf("open SQLite database: %w", err)
		}
	}
	write, err := sql.Open("sqlite", dsn(path)+"&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open SQLite database %s: %w", path, err)
	}
	write.SetMaxOpenConns(1)
	if err := migrate(ctx, write); err != nil {
		return nil, errors.Join(fmt.Errorf("open SQLite database %s: %w", path, err), write.Close())
	}
	if path == Memory {
		write.SetConnMaxLifetime(0) // the database goes with its only connection
		return sqlstore.New(write, write, dialect()), nil
	}
	read, err := sql.Open("sqlite", dsn(path)+"&_pragma=query_only(true)")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open SQLite database %s: %w", path, err), write.Close())
	}
	read.SetMaxOpenConns(readers)
	return sqlstore.New(write, read, dialect()), nil
}

// dsn asks for a journal that readers need not wait for, and for a commit that survives a power loss. Frames are longer
// than most rows: larger pages take them in fewer writes.
func dsn(path string) string {
	pragmas := fmt.Sprintf("?_pragma=busy_timeout(%d)&_pragma=page_size(8192)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)",
		busyTimeout.Milliseconds())
	if path == Memory {
		return Memory + pragmas
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + pragmas
}

// migrate retries if another process was faster: it then finds that process's tables. A migration is one transaction,
// so that the slower one leaves no partial result.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	for range migrators {
		if err = sqlstore.Migrate(ctx, goose.DialectSQLite3, db, files); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

func dialect() sqlstore.Dialect {
	return sqlstore.Dialect{
		Keys:    `(SELECT value ->> 0 AS tenant, value ->> 1 AS id FROM json_each($1))`,
		KeyArgs: keyArgs,
		Find:    "instr",
		Insert:  insert,
		Refused: refused,
		Missing: missing,
		Migrate: migrate,
	}
}

func keyArgs(keys []sqlstore.Key) []any {
	pairs := make([][2]string, len(keys))
	for i, k := range keys {
		pairs[i] = [2]string{k.Tenant, k.ID}
	}
	text, err := json.Marshal(pairs)
	if err != nil { // ids are ASCII; what is not UTF-8 names no row
		return []any{"[]"}
	}
	return []any{string(text)}
}

// insert writes whole blocks with one statement, and the rest row by row with another.
func insert(ctx context.Context, tx *sql.Tx, t sqlstore.Table, rows [][]any) error {
	whole := len(rows) - len(rows)%block
	if err := insertBy(ctx, tx, t, block, rows[:whole]); err != nil {
		return err
	}
	return insertBy(ctx, tx, t, 1, rows[whole:])
}

// insertBy writes size rows at a time; there are so many, or a multiple, or none.
func insertBy(ctx context.Context, tx *sql.Tx, t sqlstore.Table, size int, rows [][]any) (err error) {
	if len(rows) == 0 {
		return nil
	}
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", ") + ")"
	values := " VALUES " + strings.TrimSuffix(strings.Repeat(row+", ", size), ", ")
	statement, err := tx.PrepareContext(ctx, t.Into()+values+t.OnConflict())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, statement.Close()) }()
	args := make([]any, 0, size*len(t.Columns))
	for some := range slices.Chunk(rows, size) {
		args = args[:0]
		for _, r := range some {
			args = append(args, r...)
		}
		if _, err := statement.ExecContext(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// refused finds broken constraints and values that do not fit.
func refused(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
		return true
	default:
		return false
	}
}

// missing matches the text: SQLite has no separate code for a missing table.
func missing(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && strings.Contains(e.Error(), "no such table")
}
