package storetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/services/history/internal/store"
)

// to returns what moves a progress to p.
func to(p store.Progress) func(store.Progress) store.Progress {
	return func(was store.Progress) store.Progress {
		p.Version = was.Version
		return p
	}
}

func move(t testing.TB, s store.Store, p store.Progress) store.Progress {
	t.Helper()
	is, err := s.MoveProgress(t.Context(), to(p))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Progress(t.Context()); err != nil || got != is {
		t.Fatalf("got progress %+v, %v; want %+v", got, err, is)
	}
	return is
}

// movesProgress stores batches with a process's knowledge.
func movesProgress(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	result, err := s.Apply(t.Context(), []store.Entry{l.Accepted()}, store.Known{})
	if err != nil || result.Progress != (store.Progress{}) {
		t.Errorf("without a progress: got %+v, %v", result.Progress, err)
	}
	first := move(t, s, store.Progress{Incarnation: "i1", Through: 5})
	if again := move(t, s, first); again != first {
		t.Errorf("no change made %+v of %+v", again, first)
	}
	apply := func(through uint64, want store.Progress) store.Progress {
		t.Helper()
		result, err := s.Apply(t.Context(), []store.Entry{l.Thread()}, store.Known{Through: through, Version: first.Version})
		if err != nil {
			t.Fatal(err)
		}
		want.Version = result.Progress.Version
		if stored, err := s.Progress(t.Context()); err != nil || result.Progress != want || stored != want {
			t.Errorf("got %+v and stored %+v, %v; want %+v", result.Progress, stored, err, want)
		}
		return result.Progress
	}
	later := apply(7, store.Progress{Incarnation: "i1", Through: 7})
	if later.Version <= first.Version {
		t.Errorf("the version went from %d to %d", first.Version, later.Version)
	}
	apply(6, store.Progress{Incarnation: "i1", Through: 7}) // it never goes back
	move(t, s, store.Progress{Incarnation: "i1", Through: 2, Target: 9})
	apply(7, store.Progress{Incarnation: "i1", Through: 2, Target: 9}) // what is missing is not skipped
}

// refusesOlderCopy stores a batch in a database that is older than what the process has seen.
func refusesOlderCopy(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	known := store.Known{Through: 9, Version: move(t, s, store.Progress{Incarnation: "i1", Through: 5}).Version + 1}
	if _, err := s.Apply(t.Context(), l.All(1), known); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("got %v, want ErrReplaced", err)
	}
	if empty, err := s.Empty(t.Context()); err != nil || !empty {
		t.Errorf("the refused batch left the database empty: %v, %v", empty, err)
	}
	known.Version--
	if _, err := s.Apply(t.Context(), l.All(1), known); err != nil {
		t.Error(err)
	}
	if empty, err := s.Empty(t.Context()); err != nil || empty {
		t.Errorf("a database with a request is empty: %v, %v", empty, err)
	}
}

// countsTogether moves the progress from several sides at once.
func countsTogether(t *testing.T, s store.Store) {
	const sides, times = 4, 10
	var group sync.WaitGroup
	for range sides {
		group.Go(func() {
			for range times {
				if _, err := s.MoveProgress(t.Context(), func(p store.Progress) store.Progress {
					p.Through++
					return p
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if got, err := s.Progress(t.Context()); err != nil || got.Through != sides*times || got.Version != sides*times {
		t.Errorf("got %+v, %v; want that each of %d moves counts", got, err, sides*times)
	}
}

// migratesAgain brings tables up to date that are.
func migratesAgain(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	apply(t, s, l.All(1)...)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLog(t, s, l.RequestID, lines(l.All(1)...))
}
