package pgtest_test

import (
	"testing"

	"github.com/agentbus/agentbus/pkg/pgtest"
	"github.com/jackc/pgx/v5"
)

func TestEachDatabaseIsEmptyAndOwn(t *testing.T) {
	t.Parallel()
	for range 2 {
		conn, err := pgx.Connect(t.Context(), pgtest.New(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE mine (n int)"); err != nil {
			t.Errorf("create a table: %v", err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
