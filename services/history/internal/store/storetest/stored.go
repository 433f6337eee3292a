package storetest

import (
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// CountsStoredBytes compares the counts of s, after every batch, with the rows that db reads: another connection to the
// database of s.
func CountsStoredBytes(t *testing.T, s store.Store, db *sql.DB) {
	t.Helper()
	t.Run("whatever is delivered in whatever order", func(t *testing.T) { countsAnyDelivery(t, s, db) })
	t.Run("several write, delete and recount at once", func(t *testing.T) { countsTogetherWith(t, s, db) })
	t.Run("rows that were removed by hand", func(t *testing.T) { countsAgain(t, s, db) })
}

// stored reads the rows of a tenant, and adds up what they hold by owner. A row that belongs to no request is an error.
func stored(t testing.TB, db *sql.DB, tenant string) map[string]int64 {
	t.Helper()
	sums, owners := map[string]int64{}, map[string]string{}
	read := func(query string, row func(id, owner string, data []byte)) {
		rows, err := db.QueryContext(t.Context(), query, tenant)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id, owner string
			var data []byte
			if err := rows.Scan(&id, &owner, &data); err != nil {
				t.Fatal(err)
			}
			row(id, owner, data)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	read("SELECT request_id, owner, input FROM requests WHERE tenant = $1 AND NOT deleted", func(id, owner string, data []byte) {
		owners[id] = owner
		sums[owner] += int64(len(data))
	})
	read("SELECT request_id, '', lines FROM frames WHERE tenant = $1", func(id, _ string, data []byte) {
		owner, ok := owners[id]
		if !ok {
			t.Errorf("events of request %s are stored, although it is not there or was deleted", id)
		}
		sums[owner] += int64(len(data))
	})
	read("SELECT thread_id, owner, session FROM threads WHERE tenant = $1", func(_, owner string, data []byte) {
		sums[owner] += int64(len(data))
	})
	return sums
}

// wantCounted expects the counts of a tenant to be what its rows add up to, and returns how many bytes it has.
func wantCounted(t testing.TB, s store.Store, db *sql.DB, tenant string, owners ...string) int64 {
	t.Helper()
	all, sum := stored(t, db, tenant), int64(0)
	for _, bytes := range all {
		sum += bytes
	}
	for _, owner := range append(owners, "") {
		want := sum
		if owner != "" {
			want = all[owner]
		}
		if got, err := s.Stored(t.Context(), tenant, owner); err != nil || got != want {
			t.Fatalf("%d bytes are counted of %q of %s, %v; its rows have %d", got, owner, tenant, err, want)
		}
	}
	return sum
}

// noted is the i-th record of what is noted on the thread of a log.
func noted(l Log, i int) store.Entry {
	e := Session(l.ThreadID, i)
	e.Tenant, e.Session.Owner = l.Tenant, l.Owner
	return e
}

func countsAnyDelivery(t *testing.T, s store.Store, db *sql.DB) {
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 5))
		tenant := "any" + string(rune('a'+seed))
		todo := anyTenant(tenant, random)
		for len(todo) > 0 {
			var again []store.Entry
			for batch := range slices.Chunk(todo, 1+random.IntN(12)) {
				for i, err := range applyAny(t, s, batch...).Errors {
					if errors.Is(err, store.ErrHole) {
						again = append(again, batch[i])
					}
				}
				wantCounted(t, s, db, tenant, "ada", "bob")
			}
			if len(again) == len(todo) {
				break // what they wait for was cut
			}
			todo = again
		}
	}
}

// anyTenant is what the bus delivers of a tenant with two owners, in any order and more than once.
func anyTenant(tenant string, random *rand.Rand) []store.Entry {
	var all []store.Entry
	for _, owner := range []string{"ada", "bob"} {
		for i := range 2 {
			l := NewLog("thr_"+owner, i)
			l.Tenant, l.Owner = tenant, owner
			bodies := l.Bodies(random.IntN(200))
			all = append(all, l.Accepted(), l.Thread(), noted(l, i))
			all = append(all, l.Frames(10+random.IntN(60), bodies...)...)
			all = append(all, l.Frames(10+random.IntN(60), bodies...)...)
			if random.IntN(2) == 0 { // a restored stream continued differently
				l.Incarnation = "i2"
				all = append(all, l.Frame(uint64(1+random.IntN(len(bodies)-1)), event.Aborted{Reason: "restored"}))
			}
		}
	}
	if random.IntN(2) == 0 {
		gone := NewLog("thr_ada", 1)
		gone.Tenant = tenant
		all = append(all, gone.Deleted())
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func countsTogetherWith(t *testing.T, s store.Store, db *sql.DB) {
	const tenant = "together"
	var entries []store.Entry
	for i := range 4 {
		for _, thread := range []string{"kept", "gone"} {
			l := NewLog(thread, i)
			l.Tenant, l.Owner = tenant, []string{"ada", "bob"}[i%2]
			entries = append(entries, l.All(20)...)
			entries = append(entries, noted(l, i))
		}
	}
	last := NewLog("gone", 3)
	last.Tenant = tenant
	entries = append(entries, last.Deleted())
	done := make(chan struct{})
	var writers, counter sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			mine := slices.Clone(entries)
			rand.New(rand.NewPCG(11, uint64(i))).Shuffle(len(mine), func(a, b int) { mine[a], mine[b] = mine[b], mine[a] })
			for range 8 {
				for batch := range slices.Chunk(mine, 15) {
					_, _ = s.Apply(t.Context(), batch, store.Known{}) // the databases may let one of several fail; it comes again
				}
			}
		})
	}
	counter.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if err := s.Recount(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	writers.Wait()
	close(done)
	counter.Wait()
	if got := wantCounted(t, s, db, tenant, "ada", "bob"); got == 0 {
		t.Error("nothing was stored")
	}
}

func countsAgain(t *testing.T, s store.Store, db *sql.DB) {
	const tenant = "again"
	for _, thread := range []string{"one", "two"} {
		l := NewLog(thread, 0)
		l.Tenant = tenant
		apply(t, s, append(l.All(40), noted(l, 0))...)
	}
	before := wantCounted(t, s, db, tenant, "ada")
	for _, statement := range []string{
		"DELETE FROM frames WHERE tenant = 'again' AND request_id = 'req_one_0'",
		"DELETE FROM requests WHERE tenant = 'again' AND thread_id = 'one'",
		"DELETE FROM threads WHERE tenant = 'again' AND thread_id = 'one'",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Recount(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := wantCounted(t, s, db, tenant, "ada"); after == 0 || after >= before {
		t.Errorf("got %d bytes of two threads, and %d of the one that is left", before, after)
	}
}
