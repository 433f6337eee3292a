// Package sqldb opens a small SQL database, SQLite or PostgreSQL by its address, and migrates its tables. It is for
// services that store little and whose SQL works with both: $1-style parameters, TEXT, BIGINT, DOUBLE PRECISION, times
// as milliseconds. History has separate drivers, because it needs more.
package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"strings"

	"github.com/agentbus/agentbus/pkg/datadir"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // the driver sqlite
)

// Schema is the tables of a service.
type Schema struct {
	Files   fs.FS  // migrations, as goose reads them
	Version string // the table that says which of them have run: services may share a database
}

// Memory is the address of a database that lives as long as its connection.
const Memory = "sqlite::memory:"

// migrators is how many processes may start at the same time on an empty SQLite file.
const migrators = 10

// Open opens the database at address (postgres://user:password@host:port/name, sqlite:PATH or [Memory]). Errors never
// show a password.
func Open(ctx context.Context, address string, s Schema) (*sql.DB, error) {
	scheme, rest, _ := strings.Cut(address, ":")
	switch {
	case scheme == "postgres" || scheme == "postgresql":
		return openPostgres(ctx, address, s)
	case scheme == "sqlite" && rest != "":
		return openSQLite(ctx, rest, s)
	default:
		return nil, fmt.Errorf("database address begins with %.12q: it must be postgres://user:password@host:port/name, "+
			"sqlite::memory: or sqlite:PATH", scheme)
	}
}

func openPostgres(ctx context.Context, address string, s Schema) (*sql.DB, error) {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err) // pgx leaves the password out
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err == nil {
		err = s.migrate(ctx, goose.DialectPostgres, db, goose.WithSessionLocker(locker))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open PostgreSQL database: %w", err), db.Close())
	}
	return db, nil
}

// openSQLite has one connection, so that a transaction waits its turn instead of failing.
func openSQLite(ctx context.Context, path string, s Schema) (*sql.DB, error) {
	const pragmas = "?_pragma=busy_timeout(10000)&_pragma=secure_delete(ON)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
	dsn := path + pragmas
	if path != ":memory:" {
		if err := datadir.PrivateFile(path); err != nil {
			return nil, fmt.Errorf("open SQLite database: %w", err)
		}
		dsn = "file:" + (&url.URL{Path: path}).EscapedPath() + pragmas
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open SQLite database %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	db.SetConnMaxLifetime(0)
	for range migrators { // another process may have been faster; its tables are then found
		if err = s.migrate(ctx, goose.DialectSQLite3, db); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open SQLite database %s: %w", path, err), db.Close())
	}
	return db, nil
}

func (s Schema) migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, options ...goose.ProviderOption) error {
	options = append(options, goose.WithDisableGlobalRegistry(true), goose.WithTableName(s.Version))
	provider, err := goose.NewProvider(dialect, db, s.Files, options...)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Unreachable reports whether an error of [Open], of the database that it returned, or of another PostgreSQL driver of
// this module, means that the database is temporarily unreachable. A wrong address and a rejected password do not
// count.
func Unreachable(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch class := answer.Code[:min(2, len(answer.Code))]; class {
		case "08", "53", "57": // connection lost, too many connections, starting up or shutting down
			return true
		default:
			return false
		}
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false // a file of SQLite; its error number has the methods of a net.Error
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	for _, cut := range []error{io.EOF, io.ErrUnexpectedEOF, driver.ErrBadConn, sql.ErrConnDone} {
		if errors.Is(err, cut) {
			return true
		}
	}
	return connecting || network || pgconn.SafeToRetry(err) // the connection was closed before anything was sent
}
