package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// Session is the i-th record of what is noted on a thread: a minute later than the one before.
func Session(threadID string, i int) store.Entry {
	at := start().Add(time.Duration(i) * time.Minute)
	return store.Entry{
		Tenant: Tenant, ThreadID: threadID, Time: at,
		Session: &record.Session{
			ThreadID: threadID, Owner: "ada", AgentID: "writer", Name: "name " + string(rune('0'+i)), Tags: []string{"a", "b"},
			Metadata: json.RawMessage(`{"folder":{"id":7},"text":"\u0000 \" é"}`), Model: &record.Model{Provider: "p", ID: "m"},
			RuntimeSettings: json.RawMessage(`{"fast":true}`), CreatedAt: start(), UpdatedAt: at,
		},
	}
}

func keepsSession(t *testing.T, s store.Store) {
	noted := Session("thr", 1)
	apply(t, s, noted)
	got, err := s.Thread(t.Context(), Tenant, "thr")
	if err != nil {
		t.Fatal(err)
	}
	if asJSON(t, got.Record) != asJSON(t, noted.Session) {
		t.Errorf("got %s, want %s", asJSON(t, got.Record), asJSON(t, noted.Session))
	}
	if got.Title != "name 1" || got.Requests != 0 || got.LastRequestID != "" || got.Owner != "ada" || got.AgentID != "writer" ||
		!got.CreatedAt.Equal(start()) || !got.UpdatedAt.Equal(noted.Time) {
		t.Errorf("a session without a request is %+v", got)
	}
	threads, err := s.Threads(t.Context(), Tenant, "ada", store.ThreadPosition{}, 10)
	if err != nil || len(threads) != 1 || asJSON(t, threads[0]) != asJSON(t, got) {
		t.Errorf("the list has %s (%v), want the same", asJSON(t, threads), err)
	}
}

func namesThread(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	apply(t, s, l.All(2)...)
	title := func(want string) {
		t.Helper()
		got, err := s.Thread(t.Context(), Tenant, "thr")
		if err != nil || got.Title != want || got.AgentID != "demo" || got.Requests != 1 {
			t.Errorf("got %+v (%v), want the title %q", got, err, want)
		}
	}
	title("question 0")
	apply(t, s, Session("thr", 3))
	title("name 3")
	unnamed := Session("thr", 4)
	unnamed.Session.Name = ""
	apply(t, s, unnamed)
	title("question 0")
}

func ordersSessions(t *testing.T, s store.Store) {
	for _, order := range [][]int{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}, {3, 3, 1, 2, 3, 2}} {
		threadID := strings.NewReplacer(" ", "_", "[", "", "]", "").Replace(fmt.Sprint("thr", order))
		l := NewLog(threadID, 0)
		for n, i := range order {
			apply(t, s, Session(threadID, i))
			if n == 0 {
				apply(t, s, l.Thread(), l.Accepted())
			}
		}
		got, err := s.Thread(t.Context(), Tenant, threadID)
		if err != nil {
			t.Fatal(err)
		}
		if got.Title != "name 3" || got.Requests != 1 || got.AgentID != "demo" || !got.UpdatedAt.Equal(Session("", 3).Time) {
			t.Errorf("order %v: got %+v", order, got)
		}
	}
}

func forgetsSession(t *testing.T, s store.Store) {
	gone := Session("thr", 2)
	gone.Session.Deleted = true
	unused := NewLog("unused", 0).Deleted() // the record that ends a thread before it has a request
	unused.Thread.RequestID = ""
	tests := []struct {
		name, threadID string
		end            store.Entry
	}{
		{"by its own record", "thr", gone},
		{"by the record of its thread", "unused", unused},
	}
	for _, test := range tests {
		apply(t, s, Session(test.threadID, 1))
		apply(t, s, test.end)
		apply(t, s, Session(test.threadID, 3), Session(test.threadID, 1)) // late ones
		if _, err := s.Thread(t.Context(), Tenant, test.threadID); !errors.Is(err, store.ErrDeleted) {
			t.Errorf("%s: got %v, want deleted", test.name, err)
		}
	}
	threads, err := s.Threads(t.Context(), Tenant, "ada", store.ThreadPosition{}, 10)
	if err != nil || len(threads) > 0 {
		t.Errorf("got threads %v, %v, want none", threads, err)
	}
	if _, err := s.Thread(t.Context(), Tenant, "never"); !errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDeleted) {
		t.Errorf("a thread that never was: got %v, want not found", err)
	}
}

func concurrentSessions(t *testing.T, s store.Store) {
	entries := NewLog("thr", 0).All(5)
	for i := range 9 {
		entries = append(entries, Session("thr", i))
	}
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			mine := slices.Clone(entries)
			rand.New(rand.NewPCG(3, uint64(i))).Shuffle(len(mine), func(a, b int) { mine[a], mine[b] = mine[b], mine[a] })
			for range 1000 { // what is refused comes again
				if len(mine) == 0 {
					return
				}
				result, err := s.Apply(t.Context(), mine[:1], store.Known{})
				if err != nil {
					continue
				}
				if errors.Is(result.Errors[0], store.ErrHole) {
					mine = append(mine, mine[0])
				}
				mine = mine[1:]
			}
			t.Errorf("%d entries are still refused after 1000 deliveries", len(mine))
		})
	}
	writers.Wait()
	got, err := s.Thread(t.Context(), Tenant, "thr")
	if err != nil || got.Title != "name 8" || got.Requests != 1 {
		t.Errorf("got %+v (%v), want the newest name", got, err)
	}
}
