package bus_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
)

func changesSession(t *testing.T, b *bus.Bus) {
	session := record.Session{ThreadID: id.New(id.Thread), Owner: "ada", AgentID: "demo", CreatedAt: time.Now(), UpdatedAt: time.Now()}
	if _, err := b.Session(t.Context(), "t", session.ThreadID); !errors.Is(err, bus.ErrNotFound) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}
	first, err := b.UpdateSession(t.Context(), "t", session, bus.SessionRecord{})
	if err != nil {
		t.Fatal(err)
	}
	var wins atomic.Int32
	var race sync.WaitGroup
	for range 8 {
		race.Go(func() {
			next := session
			next.Name = "renamed"
			_, err := b.UpdateSession(t.Context(), "t", next, first)
			switch {
			case err == nil:
				wins.Add(1)
			case !errors.Is(err, bus.ErrConflict):
				t.Error(err)
			}
		})
	}
	race.Wait()
	newest, err := b.Session(t.Context(), "t", session.ThreadID)
	if err != nil || wins.Load() != 1 || newest.Name != "renamed" || newest.Owner != "ada" || newest.Sequence <= first.Sequence {
		t.Fatalf("%d writers won, and the record is %+v (%v); want one and its name", wins.Load(), newest, err)
	}
	if _, err := b.Session(t.Context(), "other", session.ThreadID); !errors.Is(err, bus.ErrNotFound) {
		t.Fatalf("another tenant got %v, want ErrNotFound", err)
	}
}

func ordersSession(t *testing.T, b *bus.Bus) {
	now := time.Now()
	session := record.Session{ThreadID: id.New(id.Thread), UpdatedAt: now}
	var last bus.SessionRecord
	for range 3 { // by a gateway whose clock is an hour late
		next, err := b.UpdateSession(t.Context(), "t", session, last)
		if err != nil {
			t.Fatal(err)
		}
		if !next.UpdatedAt.After(last.UpdatedAt) {
			t.Fatalf("a record of %s comes after one of %s", next.UpdatedAt, last.UpdatedAt)
		}
		last, session.UpdatedAt = next, now.Add(-time.Hour)
	}
}
