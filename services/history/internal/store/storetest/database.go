package storetest

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/services/history/internal/store"
)

// RefusesSecondTerminal goes round the store: the database itself must refuse a second terminal event. db is another
// connection to the database of s.
func RefusesSecondTerminal(t *testing.T, s store.Store, db *sql.DB) {
	t.Helper()
	l := NewLog("thr", 0)
	apply(t, s, l.All(1)...)
	insert := func(request string, n int, terminal bool) error {
		_, err := db.ExecContext(t.Context(), `INSERT INTO frames
			(tenant, request_id, last_n, first_n, incarnation, names, beyond, terminal, earliest, latest, at, lines)
			VALUES ($1, $2, $3, $3, 'i1', 'done', TRUE, $4, 0, 0, 0, '{}')`, Tenant, request, n, terminal)
		return err
	}
	if err := insert(l.RequestID, 100, true); err == nil {
		t.Error("a second terminal event was stored")
	}
	if err := insert(l.RequestID, 101, false); err != nil {
		t.Errorf("an event that is not terminal: got %v, want it stored", err)
	}
	if err := insert("another", 0, true); err != nil {
		t.Errorf("the terminal event of another request: got %v, want it stored", err)
	}
}

// KeepsData opens a database twice.
func KeepsData(t *testing.T, open Open) {
	t.Helper()
	l := NewLog("thr", 0)
	apply(t, open(t), l.All(3)...)
	again := open(t)
	wantLog(t, again, l.RequestID, lines(l.All(3)...))
	if got := apply(t, again, l.All(3)...).Events; got != 0 {
		t.Errorf("got %d new events after opening again, want none", got)
	}
}

// OpensTogether opens a new database from several sides at once: one of them makes its tables.
func OpensTogether(t *testing.T, open func(context.Context) (store.Store, error)) {
	t.Helper()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			s, err := open(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
