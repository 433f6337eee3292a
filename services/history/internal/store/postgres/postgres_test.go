package postgres_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/pgtest"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/agentbus/agentbus/services/history/internal/store/postgres"
	"github.com/agentbus/agentbus/services/history/internal/store/storetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

func open(t testing.TB, url string) store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url)
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

func fresh(t testing.TB) store.Store { return open(t, pgtest.New(t)) }

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, fresh)
}

func TestDatabaseRefusesSecondTerminal(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	s := open(t, url)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	storetest.RefusesSecondTerminal(t, s, db)
}

func TestStoredBytesAreWhatTheRowsHave(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	s := open(t, url)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.CountsStoredBytes(t, s, db)
}

func TestDataSurvivesReopen(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	storetest.KeepsData(t, func(t testing.TB) store.Store { return open(t, url) })
}

func TestOpensAtTheSameTime(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	storetest.OpensTogether(t, func(ctx context.Context) (store.Store, error) {
		s, err := postgres.Open(ctx, url)
		return store.Of(s), err
	})
}

func TestErrorsDoNotContainThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://me:hunter2@127.0.0.1:1/db?connect_timeout=1", "postgres://me:hunter2@host:port/db"} {
		_, err := postgres.Open(t.Context(), url)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want an error without the password", url, err)
		}
	}
}

func BenchmarkApply(b *testing.B) { storetest.BenchmarkApply(b, fresh) }

func BenchmarkTranscript(b *testing.B) { storetest.BenchmarkTranscript(b, fresh) }

func BenchmarkPage(b *testing.B) { storetest.BenchmarkPage(b, fresh) }
