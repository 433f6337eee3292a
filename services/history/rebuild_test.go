package history_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/pgtest"
	"github.com/agentbus/agentbus/services/history"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql calls it pgx
	_ "modernc.org/sqlite"             // and this one sqlite
)

// database is a database of history, as an operator works on it.
type database struct {
	driver, source, url string
}

func databases() map[string]func(*testing.T) database {
	return map[string]func(*testing.T) database{
		"SQLite": func(t *testing.T) database {
			u := url(t)
			return database{"sqlite", strings.TrimPrefix(u, "sqlite:") + "?_pragma=busy_timeout(10000)", u}
		},
		"PostgreSQL": func(t *testing.T) database {
			u := pgtest.New(t)
			return database{"pgx", u, u}
		},
	}
}

// do runs statements on a connection of its own, in one transaction.
func (d database) do(t *testing.T, statements ...string) {
	t.Helper()
	db, err := sql.Open(d.driver, d.source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := tx.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// each returns a statement for every table that history works with.
func each(verb string) []string {
	tables := []string{"frames", "requests", "threads", "progress", "stored_bytes"}
	for i, table := range tables {
		tables[i] = fmt.Sprintf(verb, table)
	}
	return tables
}

// loseThread returns statements that delete all rows of a thread.
func loseThread() []string {
	return []string{
		"DELETE FROM frames WHERE request_id LIKE 'req_thr_1%'", "DELETE FROM requests WHERE thread_id = 'thr_1'",
		"DELETE FROM threads WHERE thread_id = 'thr_1'",
	}
}

func (d database) dropAll(t *testing.T) {
	t.Helper()
	d.do(t, append(each("DROP TABLE %s"), "DROP TABLE goose_db_version")...)
}

// talks runs five requests on each of the threads from first on.
func talks(t *testing.T, b *bus.Bus, first, count int) {
	t.Helper()
	for i := range count {
		c := conversation{t: t, bus: b, thread: fmt.Sprintf("thr_%d", first+i)}
		for j := range 5 {
			c.say(fmt.Sprintf("word %d", j))
		}
	}
}

// filled runs history until stop is called, and five requests on each of count threads, all of which it has then stored.
func filled(t *testing.T, d database, b *bus.Bus, count int) (h *history.History, stop func()) {
	t.Helper()
	h, stop = run(t, b, d.url)
	talks(t, b, 0, count)
	wantThreads(t, historyapi.NewClient(b), count)
	return h, stop
}

// listed returns the first list of threads that is not refused because history is not complete.
func listed(t *testing.T, ask historyapi.Client) []historyapi.Thread {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		page, err := ask.Threads(t.Context(), historyapi.ThreadsQuery{Tenant: tenant, Owner: "ada", Limit: 200})
		if err == nil {
			return page.Threads
		}
		if apierr.CodeOf(err) != apierr.Unavailable || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// awaitLook waits until history is ready and, a second later, has looked at its rows once more.
func awaitLook(t *testing.T, h *history.History) {
	t.Helper()
	awaitReady(t, h)
	time.Sleep(1100 * time.Millisecond)
}

// wantThreads expects that lists and messages say that they are not complete until they are.
func wantThreads(t *testing.T, ask historyapi.Client, count int) {
	t.Helper()
	if got := listed(t, ask); len(got) != count {
		t.Errorf("the first list that was answered has %d threads, want %d", len(got), count)
	}
	for i := range count {
		messages, err := ask.Messages(t.Context(), historyapi.MessagesQuery{ThreadRef: ref(fmt.Sprintf("thr_%d", i))})
		if err != nil || len(messages.Messages) != 10 {
			t.Errorf("thread %d: got %d messages, %v; want 10", i, len(messages.Messages), err)
		}
	}
}

func onEach(t *testing.T, test func(*testing.T, database, *bus.Bus)) {
	t.Helper()
	for name, open := range databases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t), bustest.New(t))
		})
	}
}

func TestDroppedDatabaseIsProjectedAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database, b *bus.Bus) {
		_, stop := filled(t, d, b, 5)
		stop()
		d.dropAll(t)
		_, stop = run(t, b, d.url)
		defer stop()
		wantThreads(t, historyapi.NewClient(b), 5)
	})
}

func TestDatabaseEmptiedAtRuntimeIsProjectedAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, database){
		"tables":     func(t *testing.T, d database) { t.Helper(); d.dropAll(t) },
		"rows":       func(t *testing.T, d database) { t.Helper(); d.do(t, each("DELETE FROM %s")...) },
		"projection": func(t *testing.T, d database) { t.Helper(); d.do(t, each("DELETE FROM %s")[:3]...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, d database, b *bus.Bus) {
				h, stop := filled(t, d, b, 5)
				defer stop()
				awaitLook(t, h)
				lose(t, d)
				wantThreads(t, historyapi.NewClient(b), 5)
				talks(t, b, 5, 2)
				wantThreads(t, historyapi.NewClient(b), 7)
				wantStored(t, d, b)
			})
		})
	}
}

func TestAnOlderCopyOfTheDatabaseCatchesUp(t *testing.T) {
	t.Parallel()
	// copies saves the tables and puts them back, as a dump does.
	save := append(each("CREATE TABLE saved_%[1]s AS SELECT * FROM %[1]s"), "SELECT 1")
	restore := append(each("DELETE FROM %s"), each("INSERT INTO %[1]s SELECT * FROM saved_%[1]s")...)
	for name, running := range map[string]bool{"while history runs": true, "while history is down": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, d database, b *bus.Bus) {
				_, stop := filled(t, d, b, 3)
				d.do(t, save...)
				talks(t, b, 3, 3)
				wantThreads(t, historyapi.NewClient(b), 6)
				if !running {
					stop()
				}
				d.do(t, restore...)
				if !running {
					_, stop = run(t, b, d.url)
				}
				defer stop()
				wantThreads(t, historyapi.NewClient(b), 6)
			})
		})
	}
}

func TestAnOlderFileCatchesUp(t *testing.T) {
	t.Parallel()
	d, b := databases()["SQLite"](t), bustest.New(t)
	path := strings.TrimPrefix(d.url, "sqlite:")
	_, stop := filled(t, d, b, 3)
	stop()
	older, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, stop = run(t, b, d.url)
	talks(t, b, 3, 3)
	wantThreads(t, historyapi.NewClient(b), 6)
	stop()
	if err := os.WriteFile(path, older, 0o600); err != nil {
		t.Fatal(err)
	}
	_, stop = run(t, b, d.url)
	defer stop()
	wantThreads(t, historyapi.NewClient(b), 6)
}

func TestSeveralProcessesFillAnEmptyDatabaseTogether(t *testing.T) {
	t.Parallel()
	d, server := databases()["PostgreSQL"](t), bustest.NewServer(t)
	b := server.Connect(t, "writer")
	var ready []*history.History
	for i := range 2 {
		h, stop := run(t, server.Connect(t, fmt.Sprintf("history-%d", i)), d.url)
		defer stop()
		ready = append(ready, h)
	}
	talks(t, b, 0, 10)
	wantThreads(t, historyapi.NewClient(b), 10)
	d.do(t, each("DELETE FROM %s")...)
	wantThreads(t, historyapi.NewClient(b), 10)
	talks(t, b, 10, 2)
	wantThreads(t, historyapi.NewClient(b), 12)
	for _, h := range ready {
		awaitReady(t, h)
	}
}

func TestADatabaseWithoutAPositionIsKeptAndCompleted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database, b *bus.Bus) {
		_, stop := filled(t, d, b, 4)
		stop()
		// What a version without a position leaves, after a part of the rows was lost. Requests of thr_9 are beyond retention.
		d.do(t, "DROP TABLE stored_bytes", "DROP TABLE progress", "DELETE FROM goose_db_version WHERE version_id >= 5")
		d.do(t, append(loseThread(),
			"INSERT INTO threads SELECT tenant, 'thr_9', owner, agent_id, title, title_idx, last_idx, last_request_id, "+
				"created_at, updated_at, deleted, session FROM threads WHERE thread_id = 'thr_0'")...)
		_, stop = run(t, b, d.url)
		defer stop()
		wantThreadsAnd(t, historyapi.NewClient(b), 4, "thr_9")
	})
}

// wantThreadsAnd is wantThreads with another thread, which the stream does not hold.
func wantThreadsAnd(t *testing.T, ask historyapi.Client, count int, other string) {
	t.Helper()
	got := listed(t, ask)
	if len(got) != count+1 || !slices.ContainsFunc(got, func(s historyapi.Thread) bool { return s.ThreadID == other }) {
		t.Errorf("got %d threads, want %d with %s", len(got), count+1, other)
	}
}

// blocked is a bus that does not read the stream again until it may.
type blocked struct {
	*bus.Bus
	open atomic.Bool
}

func (b *blocked) Entries(ctx context.Context, from uint64) ([]bus.Entry, uint64, error) {
	if !b.open.Load() {
		return nil, from, errors.New("not now")
	}
	return b.Bus.Entries(ctx, from)
}

func TestAnswersSayThatHistoryIsBeingRebuilt(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database, whole *bus.Bus) {
		b := &blocked{Bus: whole}
		b.open.Store(true) // if the first records are stored before the first look, history reads them from the stream
		ask := historyapi.NewClient(whole)
		parts := history.BusOf(whole)
		parts.Source = b
		h, stop := runOn(t, parts, d.url)
		defer stop()
		talks(t, whole, 0, 2)
		wantThreads(t, ask, 2)
		awaitLook(t, h)
		b.open.Store(false)
		d.do(t, each("DELETE FROM %s")...)

		_, err := ask.Threads(t.Context(), historyapi.ThreadsQuery{Tenant: tenant, Owner: "ada"})
		wantRebuild(t, "the list of threads", err)
		_, err = ask.Thread(t.Context(), ref("thr_1"))
		wantRebuild(t, "a thread", err)
		_, err = ask.Thread(t.Context(), ref("thr_that_only_a_backup_had"))
		wantRebuild(t, "a thread that the stream does not hold", err)
		if err := h.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "rebuilt") {
			t.Errorf("readiness is %v, want that history is being rebuilt", err)
		}
		b.open.Store(true)
		wantThreads(t, ask, 2)
		awaitReady(t, h)
	})
}

func wantRebuild(t *testing.T, what string, err error) {
	t.Helper()
	f, ok := errors.AsType[*apierr.Error](err)
	if !ok || f.Code != apierr.Unavailable || f.RetryAfter == 0 || !strings.Contains(f.Message, "history") {
		t.Errorf("%s: got %v, want that history is being rebuilt, and when to try again", what, err)
	}
}

func TestARebuildBringsBackWhatWasDeleted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database, b *bus.Bus) {
		_, stop := filled(t, d, b, 3)
		defer stop()
		d.do(t, loseThread()...)
		var last history.RebuildState
		if err := history.Rebuild(t.Context(), d.url, func(s history.RebuildState) { last = s }); err != nil {
			t.Fatal(err)
		}
		if !last.Done() {
			t.Errorf("it ended at %+v", last)
		}
		wantThreads(t, historyapi.NewClient(b), 3)
	})
}
