// Package pgtest gives each test a separate PostgreSQL database. It is for tests only.
//
// The server is the one at TEST_DATABASE_URL, or else a temporary cluster that is started once for each test process
// from the programs of the machine and ends with that process, however it ends. Without either, the test is skipped;
// with AGENTBUS_REQUIRE_SERVERS=1 it fails.
package pgtest

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// server starts the cluster when it is first asked for.
var server = sync.OnceValues(start)

// New creates an empty database, which is dropped when the test ends, and returns its address.
func New(t testing.TB) string {
	t.Helper()
	admin := address(t)
	name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	execute(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, admin, "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatalf("read the address of the PostgreSQL server: %v", err)
	}
	u.Path = "/" + name
	return u.String()
}

// Server returns the address of the server, for a TestMain, which has no test to skip.
func Server() (string, error) {
	if given := os.Getenv("TEST_DATABASE_URL"); given != "" {
		return given, nil
	}
	started, err := server()
	return started.address, err
}

func address(t testing.TB) string {
	t.Helper()
	started, err := Server()
	if err == nil {
		return started
	}
	text := fmt.Sprintf("no PostgreSQL for this test: %v (install the package postgresql, or set TEST_DATABASE_URL)", err)
	if required := cmp.Or(os.Getenv("AGENTBUS_REQUIRE_SERVERS"), "0"); required != "0" {
		t.Fatal(text)
	}
	t.Skip(text)
	return ""
}

// execute outlives the test's context: it also cleans up.
func execute(t testing.TB, address, statement string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatalf("connect to the PostgreSQL server of the tests: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
