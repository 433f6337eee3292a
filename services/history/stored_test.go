package history_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/history"
)

// bytes adds up what the rows of the tenant have, except those of deleted threads.
func (d database) bytes(t *testing.T) (sum int64) {
	t.Helper()
	db, err := sql.Open(d.driver, d.source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range []string{
		"SELECT lines FROM frames", "SELECT input FROM requests WHERE NOT deleted", "SELECT session FROM threads",
	} {
		rows, err := db.QueryContext(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var data []byte
			if err := rows.Scan(&data); err != nil {
				t.Fatal(err)
			}
			sum += int64(len(data))
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return sum
}

// wantStored waits until the count is what the rows have, and returns it.
func wantStored(t *testing.T, d database, b *bus.Bus) int64 {
	t.Helper()
	ask := historyapi.NewClient(b)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		all, err := ask.Stored(t.Context(), historyapi.StoredQuery{Tenant: tenant})
		if err == nil {
			var own historyapi.Stored
			if own, err = ask.Stored(t.Context(), historyapi.StoredQuery{Tenant: tenant, Owner: "ada"}); err == nil && own != all {
				err = fmt.Errorf("the only owner has %d bytes of %d", own.Bytes, all.Bytes)
			}
		}
		want := d.bytes(t)
		if err == nil && all.Bytes == want {
			return want
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are counted, %v; the rows have %d", all.Bytes, err, want)
		}
	}
}

func TestStoredBytesSurviveRedeliveryAndRebuild(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database, b *bus.Bus) {
		_, stop := run(t, b, d.url)
		defer func() { stop() }()
		talks(t, b, 0, 4)
		wantThreads(t, historyapi.NewClient(b), 4)
		before := wantStored(t, d, b)
		if before == 0 {
			t.Fatal("nothing is stored")
		}
		rebuild := func() {
			t.Helper()
			if err := history.Rebuild(t.Context(), d.url, func(history.RebuildState) {}); err != nil {
				t.Fatal(err)
			}
		}
		rebuild() // every message is delivered again
		if after := wantStored(t, d, b); after != before {
			t.Errorf("%d bytes were stored before everything was delivered again, and %d after that", before, after)
		}
		stop()
		_, stop = run(t, b, d.url)
		if after := wantStored(t, d, b); after != before {
			t.Errorf("%d bytes were stored before a restart, and %d after it", before, after)
		}
		d.do(t, "DELETE FROM frames WHERE request_id LIKE 'req_thr_1%'", "DELETE FROM requests WHERE thread_id = 'thr_1'",
			"DELETE FROM threads WHERE thread_id = 'thr_1'", "UPDATE stored_bytes SET bytes = 1")
		rebuild()
		wantThreads(t, historyapi.NewClient(b), 4)
		if after := wantStored(t, d, b); after <= before/2 {
			t.Errorf("%d bytes were stored before rows were removed, and %d after a rebuild", before, after)
		}
		newest, err := b.Thread(t.Context(), tenant, "thr_0")
		if err != nil {
			t.Fatal(err)
		}
		gone := record.Thread{ThreadID: "thr_0", Owner: "ada", AgentID: "demo", RequestID: newest.RequestID, Index: newest.Index, Deleted: true}
		if _, err := b.AdvanceThread(t.Context(), tenant, gone, newest.Sequence); err != nil {
			t.Fatal(err)
		}
		wantThreadsFrom(t, historyapi.NewClient(b), 3)
		if after := wantStored(t, d, b); after == 0 || after >= before {
			t.Errorf("%d bytes were stored before a thread was deleted, and %d after it", before, after)
		}
	})
}

// wantThreadsFrom waits until a list has so many threads.
func wantThreadsFrom(t *testing.T, ask historyapi.Client, count int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		page, err := ask.Threads(t.Context(), historyapi.ThreadsQuery{Tenant: tenant, Owner: "ada"})
		if err == nil && len(page.Threads) == count {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d threads, %v; want %d", len(page.Threads), err, count)
		}
	}
}

// TestStoredBytesOfAnEarlierVersionAreCounted upgrades a database that has rows and no counts.
func TestStoredBytesOfAnEarlierVersionAreCounted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database, b *bus.Bus) {
		_, stop := run(t, b, d.url)
		talks(t, b, 0, 3)
		wantThreads(t, historyapi.NewClient(b), 3)
		before := wantStored(t, d, b)
		stop()
		d.do(t, "DROP TABLE stored_bytes", "DELETE FROM goose_db_version WHERE version_id >= 6")
		_, stop = run(t, b, d.url)
		defer stop()
		if after := wantStored(t, d, b); after != before {
			t.Errorf("%d bytes were counted before the upgrade, and %d after it", before, after)
		}
		talks(t, b, 3, 1)
		wantThreads(t, historyapi.NewClient(b), 4)
		wantStored(t, d, b)
	})
}
