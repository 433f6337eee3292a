package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/agentbus/agentbus/services/history/internal/store/sqlite"
	"github.com/agentbus/agentbus/services/history/internal/store/storetest"
)

func open(t testing.TB, path string) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return store.Of(s)
}

func onFile(t testing.TB) store.Store {
	return open(t, filepath.Join(t.TempDir(), "a #1?.db"))
}

func inMemory(t testing.TB) store.Store { return open(t, sqlite.Memory) }

func TestStoreOnFile(t *testing.T) {
	t.Parallel()
	storetest.Run(t, onFile)
}

func TestStoreInMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, inMemory)
}

func TestDatabaseRefusesSecondTerminal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.db")
	s := open(t, path)
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.RefusesSecondTerminal(t, s, db)
}

func TestStoredBytesAreWhatTheRowsHave(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.db")
	s := open(t, path)
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.CountsStoredBytes(t, s, db)
}

func TestDataSurvivesReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.db")
	storetest.KeepsData(t, func(t testing.TB) store.Store { return open(t, path) })
}

func TestOpensAtTheSameTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.db")
	storetest.OpensTogether(t, func(ctx context.Context) (store.Store, error) {
		s, err := sqlite.Open(ctx, path)
		return store.Of(s), err
	})
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	if _, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "missing", "history.db")); err == nil {
		t.Error("a database in a folder that does not exist was opened")
	}
}

func BenchmarkApply(b *testing.B) { storetest.BenchmarkApply(b, onFile) }

func BenchmarkTranscript(b *testing.B) { storetest.BenchmarkTranscript(b, onFile) }

func BenchmarkPage(b *testing.B) { storetest.BenchmarkPage(b, onFile) }
