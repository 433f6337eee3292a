package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
)

func open(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// at is a time some minutes after the first one.
func at(minutes int) time.Time {
	return time.Date(2030, 1, 1, 0, minutes, 0, 0, time.UTC)
}

func entry(n int) store.Entry {
	e := store.Entry{Cwd: "/work", Assignment: remoteagent.Assignment{Prompt: fmt.Sprint("task ", n)}}
	e.TaskID, e.SessionID, e.Status = fmt.Sprint("task_", n), fmt.Sprint("session_", n), remoteagent.Queued
	e.CreatedAt, e.UpdatedAt = at(n), at(n)
	return e
}

func accept(t *testing.T, s *store.Store, entries ...store.Entry) {
	t.Helper()
	for _, e := range entries {
		if err := s.Accept(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// finish ends a task.
func finish(t *testing.T, s *store.Store, e store.Entry, when time.Time) {
	t.Helper()
	e.Status, e.CompletedAt = remoteagent.Completed, when
	if err := s.Append(t.Context(), store.Batch{Task: e.Task}); err != nil {
		t.Fatal(err)
	}
}

func taskIDs[T any](all []T, id func(T) string) []string {
	ids := make([]string, len(all))
	for i, one := range all {
		ids[i] = id(one)
	}
	return ids
}

func ofEntry(e store.Entry) string     { return e.TaskID }
func ofTask(t remoteagent.Task) string { return t.TaskID }
func want(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestTasksAreListedByKeyStatusAndAge(t *testing.T) {
	t.Parallel()
	s := open(t)
	one, two, three := entry(1), entry(2), entry(3)
	two.IdempotencyKey = "key"
	accept(t, s, one, two, three)
	finish(t, s, one, at(5))
	for _, test := range []struct {
		name  string
		query remoteagent.Query
		want  []string
	}{
		{"all, the newest first", remoteagent.Query{}, []string{"task_3", "task_2", "task_1"}},
		{"a limit", remoteagent.Query{Limit: 1}, []string{"task_3"}},
		{"a status", remoteagent.Query{Status: remoteagent.Queued}, []string{"task_3", "task_2"}},
		{"an idempotency key", remoteagent.Query{IdempotencyKey: "key"}, []string{"task_2"}},
		{"an unknown key", remoteagent.Query{IdempotencyKey: "' OR 1=1--"}, []string{}},
	} {
		got, err := s.Tasks(t.Context(), test.query)
		if err != nil {
			t.Fatal(err)
		}
		want(t, test.name, taskIDs(got, ofTask), test.want)
	}
	unfinished, err := s.Unfinished(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "unfinished, the oldest first", taskIDs(unfinished, ofEntry), []string{"task_2", "task_3"})
	if got, err := s.Task(t.Context(), "task_2"); err != nil || got.IdempotencyKey != "key" || got.Assignment.Prompt != "task 2" || got.Cwd != "/work" {
		t.Errorf("got %+v and %v, want the task as it was accepted", got, err)
	}
}

func TestAKeyIsOfOneTask(t *testing.T) {
	t.Parallel()
	s := open(t)
	one, two := entry(1), entry(2)
	one.IdempotencyKey, two.IdempotencyKey = "key", "key"
	accept(t, s, one)
	if err := s.Accept(t.Context(), two); err == nil {
		t.Error("a second task of one key: got no error")
	}
	if _, err := s.Task(t.Context(), "task_2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v, want that the second task was not stored", err)
	}
	accept(t, s, entry(3), entry(4)) // tasks without a key
}

func TestEventsAreReadFromANumber(t *testing.T) {
	t.Parallel()
	s := open(t)
	e := entry(1)
	accept(t, s, e)
	batch := store.Batch{Task: e.Task, Events: []store.Event{{N: 1, Name: "status", Data: "a"}, {N: 2, Name: "text", Data: "b"}, {N: 3, Name: "text", Data: "c"}}}
	if err := s.Append(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	numbers := func(events []store.Event, err error) []string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return taskIDs(events, func(e store.Event) string { return fmt.Sprint(e.N, e.Data) })
	}
	want(t, "all", numbers(s.Events(t.Context(), e.TaskID, 0, 10)), []string{"1a", "2b", "3c"})
	want(t, "after the first, one of them", numbers(s.Events(t.Context(), e.TaskID, 1, 1)), []string{"2b"})
	want(t, "after the last", numbers(s.Events(t.Context(), e.TaskID, 3, 10)), []string{})
	if last, err := s.LastEvent(t.Context(), e.TaskID); err != nil || last.N != 3 {
		t.Errorf("got event %d and %v, want the third", last.N, err)
	}
	// A number is written once: the whole batch fails.
	again := store.Batch{Task: e.Task, Events: []store.Event{{N: 4, Name: "text", Data: "d"}, {N: 3, Name: "text", Data: "other"}}}
	if err := s.Append(t.Context(), again); err == nil {
		t.Error("an event with a number that is taken: got no error")
	}
	want(t, "after the batch that failed", numbers(s.Events(t.Context(), e.TaskID, 2, 10)), []string{"3c"})
}

func TestACallStartsOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	e := entry(1)
	accept(t, s, e)
	var all sync.WaitGroup
	var mu sync.Mutex
	firsts := 0
	for range 8 {
		all.Go(func() {
			first, err := s.StartCall(context.WithoutCancel(t.Context()), e.TaskID, "call_1")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if first {
				firsts++
			}
		})
	}
	all.Wait()
	if firsts != 1 {
		t.Errorf("got %d first starts of one call, want 1", firsts)
	}
	if first, err := s.StartCall(t.Context(), e.TaskID, "call_2"); err != nil || !first {
		t.Errorf("another call: got %v and %v, want its first start", first, err)
	}
}

func TestAFinishedTaskIsReportedOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	one, two, running := entry(1), entry(2), entry(3)
	accept(t, s, one, two, running)
	finish(t, s, two, at(10))
	finish(t, s, one, at(11))
	unreported := func() []string {
		t.Helper()
		entries, err := s.Unreported(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return taskIDs(entries, ofEntry)
	}
	want(t, "in the order of their ends", unreported(), []string{"task_2", "task_1"})
	if err := s.MarkReported(t.Context(), two.TaskID); err != nil {
		t.Fatal(err)
	}
	want(t, "after one was reported", unreported(), []string{"task_1"})
}

func TestSweepRemovesWhatIsOld(t *testing.T) {
	t.Parallel()
	s := open(t)
	old, young, running := entry(1), entry(2), entry(3)
	accept(t, s, old, young, running)
	finish(t, s, old, at(10))
	finish(t, s, young, at(30))
	for _, e := range []store.Entry{old, running} {
		if err := s.PutObject(t.Context(), e.SessionID, "obj_1", []byte("data")); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := s.Sweep(t.Context(), at(20), at(20), time.Now().Add(-time.Hour))
	if err != nil || removed != 1 {
		t.Fatalf("got %d tasks removed and %v, want 1", removed, err)
	}
	for _, test := range []struct {
		taskID string
		want   error
	}{
		{old.TaskID, store.ErrGone}, {young.TaskID, nil}, {running.TaskID, nil}, {"task_none", store.ErrNotFound},
	} {
		if _, err := s.Task(t.Context(), test.taskID); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", test.taskID, err, test.want)
		}
	}
	if _, err := s.SessionCwd(t.Context(), old.SessionID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the session of the old task: got %v, want that it is removed", err)
	}
	if _, err := s.Object(t.Context(), old.SessionID, "obj_1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the object of the old session: got %v, want that it is removed", err)
	}
	// The session of a task that runs is in use, however old it is.
	if cwd, err := s.SessionCwd(t.Context(), running.SessionID); err != nil || cwd != "/work" {
		t.Errorf("the session of the running task: got %q and %v", cwd, err)
	}
	if data, err := s.Object(t.Context(), running.SessionID, "obj_1"); err != nil || string(data) != "data" {
		t.Errorf("the object of the running task: got %q and %v", data, err)
	}
	if _, err := s.Sweep(t.Context(), at(20), at(20), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Task(t.Context(), old.TaskID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after its tombstone: got %v, want not found", err)
	}
}

func TestKeysAreStoredTogetherAndUpdated(t *testing.T) {
	t.Parallel()
	s := open(t)
	never, soon := store.Key{Hash: "a", Sealed: "s", AddedAt: at(1)}, store.Key{Hash: "b", AddedAt: at(2), ExpiresAt: at(9)}
	if err := s.PutKeys(t.Context(), []store.Key{never, soon}); err != nil {
		t.Fatal(err)
	}
	never.Sealed, never.ExpiresAt = "", at(5)
	if err := s.PutKeys(t.Context(), []store.Key{never}); err != nil {
		t.Fatal(err)
	}
	keys, err := s.Keys(t.Context())
	if err != nil || len(keys) != 2 {
		t.Fatalf("got %+v and %v, want two keys", keys, err)
	}
	if keys[0].Hash != "b" || !keys[0].ExpiresAt.Equal(at(9)) || keys[1].Sealed != "" || !keys[1].ExpiresAt.Equal(at(5)) || !keys[1].AddedAt.Equal(at(1)) {
		t.Errorf("got %+v, want the newest first, and the first one expired and not readable", keys)
	}
}

func TestFactsAreReplaced(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, value := range []string{"", "one", "two"} {
		if value != "" {
			if err := s.PutFact(t.Context(), "name", value); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Fact(t.Context(), "name"); err != nil || got != value {
			t.Errorf("got %q and %v, want %q", got, err, value)
		}
	}
}
