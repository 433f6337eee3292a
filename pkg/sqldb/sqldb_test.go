package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/agentbus/agentbus/internal/loopback"
	"github.com/agentbus/agentbus/pkg/pgtest"
	"github.com/agentbus/agentbus/pkg/sqldb"
)

// schema makes one table in two migrations.
func schema(name string) sqldb.Schema {
	file := func(text string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("-- +goose Up\n" + text + "\n")}
	}
	return sqldb.Schema{Version: name + "_version", Files: fstest.MapFS{
		"00001_make.sql": file("CREATE TABLE " + name + " (n BIGINT NOT NULL);"),
		"00002_fill.sql": file("INSERT INTO " + name + " (n) VALUES (7);"),
	}}
}

func open(t *testing.T, address string, s sqldb.Schema) *sql.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), address, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// rows checks that the migrations of a table ran once.
func rows(t *testing.T, db *sql.DB, table string) {
	t.Helper()
	var count, sum int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*), sum(n) FROM "+table).Scan(&count, &sum); err != nil || count != 1 || sum != 7 {
		t.Errorf("%s: got %d rows with the sum %d and %v, want one with 7", table, count, sum, err)
	}
}

// databases are addresses of empty databases.
func databases(t *testing.T) map[string]func(*testing.T) string {
	t.Helper()
	return map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { t.Helper(); return "sqlite:" + filepath.Join(t.TempDir(), "a database.db") },
		"PostgreSQL": func(t *testing.T) string { t.Helper(); return pgtest.New(t) },
	}
}

func TestMigrationsRunOnce(t *testing.T) {
	t.Parallel()
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := address(t)
			rows(t, open(t, at, schema("one")), "one")
			rows(t, open(t, at, schema("one")), "one") // as after a restart
			other := open(t, at, schema("other"))      // services may share a database
			rows(t, other, "other")
			rows(t, other, "one")
		})
	}
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		rows(t, open(t, sqldb.Memory, schema("one")), "one")
		rows(t, open(t, sqldb.Memory, schema("one")), "one") // another database
	})
}

func TestProcessesThatStartAtOnce(t *testing.T) {
	t.Parallel()
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := address(t)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					db, err := sqldb.Open(context.WithoutCancel(t.Context()), at, schema("one"))
					if err != nil {
						t.Error(err)
						return
					}
					_ = db.Close()
				})
			}
			all.Wait()
			rows(t, open(t, at, schema("one")), "one")
		})
	}
}

func TestAFileOfSQLiteIsPrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // it has no modes
	}
	path := filepath.Join(t.TempDir(), "agent.db")
	open(t, "sqlite:"+path, schema("one"))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v and %v, want the mode 0600", info.Mode(), err)
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"nothing":              "",
		"another database":     "mysql://user:secret@host/name",
		"SQLite without path":  "sqlite:",
		"a folder that is not": "sqlite:" + filepath.Join(t.TempDir(), "missing", "file.db"),
		"a wrong port":         "postgres://user:secret@127.0.0.1:port/name",
	} {
		db, err := sqldb.Open(t.Context(), address, schema("one"))
		if err == nil {
			_ = db.Close()
			t.Errorf("%s: got no error", name)
		} else if strings.Contains(err.Error(), "secret") || sqldb.Unreachable(err) {
			t.Errorf("%s: got %v, want an error without the password that waiting does not change", name, err)
		}
	}
}

func TestMigrationsThatFail(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]fstest.MapFS{
		"wrong SQL": {"00001_a.sql": {Data: []byte("-- +goose Up\nCREATE NONSENSE;\n")}},
		"no file":   {},
	} {
		if db, err := sqldb.Open(t.Context(), sqldb.Memory, sqldb.Schema{Files: files, Version: "v"}); err == nil {
			_ = db.Close()
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	addr, err := new(loopback.Ports).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, down := sqldb.Open(t.Context(), "postgres://user@"+addr+"/name?sslmode=disable", schema("one"))
	_, unknown := sqldb.Open(t.Context(), strings.Replace(pgtest.New(t), "/test_", "/none_", 1), schema("one"))
	_, wrong := open(t, pgtest.New(t), schema("one")).ExecContext(t.Context(), "SELECT nonsense")
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"no error", nil, false},
		{"no server listens", down, true},
		{"a database that does not exist", unknown, false},
		{"a wrong statement", wrong, false},
		{"a connection that was closed", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true},
		{"a timeout of the network", fmt.Errorf("dial: %w", &net.DNSError{IsTimeout: true}), true},
		{"another error", errors.New("disk full"), false},
	}
	for _, test := range tests {
		if test.name != "no error" && test.err == nil {
			t.Errorf("%s: got no error", test.name)
		}
		if got := sqldb.Unreachable(test.err); got != test.want {
			t.Errorf("%s (%v): got %v, want %v", test.name, test.err, got, test.want)
		}
	}
}
