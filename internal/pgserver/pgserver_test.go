package pgserver_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/agentbus/agentbus/internal/loopback"
	"github.com/agentbus/agentbus/internal/pgserver"
	"github.com/jackc/pgx/v5"
)

// TestDataSurvivesACrashOfTheServer stores a row, ends the server as a crash does, and reads the row from the next server.
func TestDataSurvivesACrashOfTheServer(t *testing.T) {
	t.Parallel()
	server, err := pgserver.NewTemporary(t.Context())
	if err != nil && cmp.Or(os.Getenv("AGENTBUS_REQUIRE_SERVERS"), "0") == "0" {
		t.Skipf("no PostgreSQL for this test: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(server.Dir); err != nil {
			t.Error(err)
		}
	})
	addr, err := new(loopback.Ports).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	crash := serve(t, server, addr)
	execute(t, addr, "CREATE TABLE kept (n int)")
	execute(t, addr, "INSERT INTO kept VALUES (7)")
	crash()
	serve(t, server, addr)
	if got := execute(t, addr, "SELECT n FROM kept"); len(got) != 1 || got[0] != 7 {
		t.Errorf("got %v, want the row of the time before the crash", got)
	}
}

// serve runs a server until the test ends or the function is called that it returns.
func serve(t *testing.T, s pgserver.Server, addr string) (crash func()) {
	t.Helper()
	args, err := s.Args(addr)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(s.Program, args...)
	command.Dir, command.SysProcAttr = s.Dir, &syscall.SysProcAttr{Credential: s.User}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	crash = func() {
		if !ended {
			_ = command.Process.Signal(syscall.SIGQUIT) // "immediate shutdown"
			_ = command.Wait()
			ended = true
		}
	}
	t.Cleanup(crash)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := pgserver.Await(ctx, pgserver.URL(addr)); err != nil {
		t.Fatal(err)
	}
	return crash
}

func execute(t *testing.T, addr, statement string) []int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgserver.URL(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return got
}

func TestAnAddressWithoutAPortIsRefused(t *testing.T) {
	t.Parallel()
	if args, err := (pgserver.Server{}).Args("127.0.0.1"); err == nil {
		t.Errorf("got %v, want an error", args)
	}
}
