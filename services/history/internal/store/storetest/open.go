package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// keepsPlace delivers a record that gives a request that has ended another place on its thread.
func keepsPlace(t *testing.T, s store.Store) {
	l := NewLog("placed", 1)
	entries := l.All(1)
	entries[0].Accepted.BodyHash = "hash"
	deliver(t, s, entries...)
	moved := l.Thread()
	moved.Thread.Index = 3
	result, err := s.Apply(t.Context(), []store.Entry{moved}, store.Known{})
	if err != nil || !errors.Is(result.Errors[0], store.ErrStale) {
		t.Errorf("got %v, %v, want ErrStale", result.Errors, err)
	}
	r, err := s.Request(t.Context(), l.Tenant, l.RequestID)
	if err != nil || r.Index != 1 || r.BodyHash != "hash" {
		t.Errorf("got index %d and hash %q, %v; want 1 and the hash of its body", r.Index, r.BodyHash, err)
	}
	thread, err := s.Thread(t.Context(), l.Tenant, l.ThreadID)
	if err != nil || thread.Requests != 2 {
		t.Errorf("the thread has %d requests, %v; want 2", thread.Requests, err)
	}
}

// listsOpen puts one request of each sort on a separate thread.
func listsOpen(t *testing.T, s store.Store) {
	quiet := start().Add(30 * time.Minute)
	on := func(thread string) Log { return NewLog(thread, 0) }
	ended, waits, began, placeless, deleted := on("ended"), on("waits"), on("began"), on("placeless"), on("deleted")
	busy, late, other := on("busy"), NewLog("late", 31), on("other")
	other.Tenant = "aaa"
	apply(t, s, ended.All(1)...)
	for _, l := range []Log{waits, began, deleted, busy, late, other} {
		apply(t, s, l.Accepted(), l.Thread())
	}
	apply(t, s, placeless.Accepted())
	apply(t, s, deleted.Deleted())
	apply(t, s, began.Frame(0, event.Claim{Epoch: 1}))
	apply(t, s, busy.Frame(0, event.Claim{Epoch: 1}))
	fresh := busy.Frame(1, event.Notice{Level: "info"})
	fresh.Frame.Time = quiet
	apply(t, s, fresh)

	want := []string{"aaa/req_other_0", "acme/req_began_0", "acme/req_waits_0"}
	for limit := 1; limit <= 4; limit++ {
		var got []string
		for after := (historyapi.RequestRef{}); ; {
			page, err := s.Open(t.Context(), quiet, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page {
				got = append(got, r.Tenant+"/"+r.RequestID)
				after = r.RequestRef
			}
			if len(page) < limit {
				break
			}
		}
		wantSame(t, fmt.Sprintf("pages of %d", limit), got, want)
	}
	page, err := s.Open(t.Context(), quiet, historyapi.RequestRef{}, 1)
	if err != nil || page[0].ThreadID != other.ThreadID || page[0].AgentID != "demo" || !page[0].CreatedAt.Equal(other.at()) {
		t.Errorf("got %+v, %v", page, err)
	}
	if all, err := s.Open(t.Context(), quiet.Add(time.Hour), historyapi.RequestRef{}, 10); err != nil ||
		!slices.ContainsFunc(all, func(r historyapi.OpenRequest) bool { return r.RequestID == busy.RequestID }) {
		t.Errorf("later: got %+v, %v", all, err)
	}
}
