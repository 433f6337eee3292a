package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

func wantGone(t *testing.T, s store.Store, l Log) {
	t.Helper()
	if _, err := s.Thread(t.Context(), l.Tenant, l.ThreadID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("thread: got %v, want not found", err)
	}
	if _, err := s.Request(t.Context(), l.Tenant, l.RequestID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("request: got %v, want not found", err)
	}
	threads, err := s.Threads(t.Context(), l.Tenant, l.Owner, store.ThreadPosition{}, 10)
	if err != nil || len(threads) > 0 {
		t.Errorf("threads: got %v, %v, want none", threads, err)
	}
	requests, err := s.Requests(t.Context(), l.Tenant, l.ThreadID, store.Position{}, 10)
	if err != nil || len(requests) > 0 {
		t.Errorf("requests: got %v, %v, want none", requests, err)
	}
	for _, q := range []store.Events{{RequestID: l.RequestID}, {ThreadID: l.ThreadID}} {
		q.Tenant, q.Limit = l.Tenant, 10
		if events, err := s.Events(t.Context(), q); err != nil || len(events) > 0 {
			t.Errorf("events: got %v, %v, want none", events, err)
		}
	}
}

func forgetsThread(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	apply(t, s, l.All(3)...)
	apply(t, s, l.Deleted())
	wantGone(t, s, l)
	apply(t, s, l.All(3)...) // delivered again
	wantGone(t, s, l)
	apply(t, s, l.Frame(99, event.Aborted{})) // neither stored nor asked for again
	wantGone(t, s, l)
}

func forgetsLateRequest(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	frames := l.Frames(3, l.Bodies(3)...)
	apply(t, s, frames[0])
	apply(t, s, l.Deleted())
	apply(t, s, frames[1:]...)
	apply(t, s, l.Accepted())
	wantGone(t, s, l)

	second := NewLog("thr", 1)
	apply(t, s, second.Accepted(), second.Frame(0, second.Bodies(1)...))
	wantGone(t, s, second)
}

func keepsTenantsApart(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	apply(t, s, l.All(2)...)
	l.Tenant = "other"
	wantGone(t, s, l)
	l.Text = "something else"
	apply(t, s, l.All(1)...)
	apply(t, s, l.Deleted())
	wantGone(t, s, l)
	wantLog(t, s, l.RequestID, lines(NewLog("thr", 0).All(2)...))
}

func hidesUnowned(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	apply(t, s, l.Frame(0, l.Bodies(1)...))
	if _, err := s.Request(t.Context(), Tenant, l.RequestID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

func listsThreads(t *testing.T, s store.Store) {
	var want []string
	for i := range 7 {
		l := NewLog(fmt.Sprintf("thr%d", i), 0)
		l.Index = i / 2 // two threads change at the same time
		apply(t, s, l.Accepted(), l.Thread())
		want = append(want, l.ThreadID)
	}
	other := NewLog("others", 0)
	other.Owner = "bob"
	apply(t, s, other.Accepted(), other.Thread())
	below := NewLog("below", 0)
	below.ThreadID = id.New(id.Subthread)
	apply(t, s, below.Accepted(), below.Thread())
	slices.Reverse(want)

	for limit := 1; limit <= 8; limit++ {
		var got []string
		for after := (store.ThreadPosition{}); ; {
			page, err := s.Threads(t.Context(), Tenant, "ada", after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, thread := range page {
				got = append(got, thread.ThreadID)
				after = store.ThreadPosition{UpdatedAt: thread.UpdatedAt, ThreadID: thread.ThreadID}
			}
			if len(page) < limit {
				break
			}
		}
		wantSame(t, fmt.Sprintf("pages of %d", limit), got, want)
	}
}

func titlesThread(t *testing.T, s store.Store) {
	second, first := NewLog("thr", 1), NewLog("thr", 0)
	second.Text, first.Text = "later", "  Wörter\n und   mehr "+strings.Repeat("é", 100)
	apply(t, s, second.Thread(), second.Accepted())
	apply(t, s, first.Accepted(), first.Thread())
	thread, err := s.Thread(t.Context(), Tenant, "thr")
	if err != nil {
		t.Fatal(err)
	}
	if want := "Wörter und mehr " + strings.Repeat("é", 64); thread.Title != want {
		t.Errorf("got title %q, want %q", thread.Title, want)
	}
	if thread.Requests != 2 || thread.LastRequestID != second.RequestID || !thread.CreatedAt.Equal(first.at()) ||
		!thread.UpdatedAt.Equal(second.at()) {
		t.Errorf("got thread %+v", thread)
	}
}

func listsRequests(t *testing.T, s store.Store) {
	var want []string
	for _, i := range []int{2, 0, 4, 1, 3} {
		l := NewLog("thr", i)
		apply(t, s, l.Accepted(), l.Thread())
	}
	for i := range 5 {
		want = append(want, NewLog("thr", i).RequestID)
	}
	for limit := 1; limit <= 6; limit++ {
		var got []string
		for after := (store.Position{}); ; {
			page, err := s.Requests(t.Context(), Tenant, "thr", after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page {
				got = append(got, r.RequestID)
				after = store.Position{Index: r.Index, RequestID: r.RequestID}
			}
			if len(page) < limit {
				break
			}
		}
		wantSame(t, fmt.Sprintf("pages of %d", limit), got, want)
	}
}

func listsEvents(t *testing.T, s store.Store) {
	var want []string
	for i := range 3 {
		l := NewLog("thr", i)
		apply(t, s, l.All(2+i)...)
		for n := range l.Bodies(2 + i) {
			want = append(want, fmt.Sprintf("%s/%d", l.RequestID, n))
		}
	}
	for _, q := range []store.Events{
		{Limit: 1}, {Limit: 4}, {Limit: 9}, {Limit: 10}, {Limit: 100}, {Limit: 100, Bytes: 1}, {Limit: 100, Bytes: 1000},
	} {
		q.Tenant, q.ThreadID = Tenant, "thr"
		wantSame(t, fmt.Sprintf("pages of %d events and %d bytes", q.Limit, q.Bytes), places(t, s, q), want)
	}
}

// places reads every page of q.
func places(t *testing.T, s store.Store, q store.Events) (all []string) {
	t.Helper()
	for {
		page, err := s.Events(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return all
		}
		for _, e := range page {
			all = append(all, place(e))
			q.After = store.Position{Index: e.Index, RequestID: e.RequestID, N: e.N + 1}
		}
	}
}

func selectsEvents(t *testing.T, s store.Store) {
	for i := range 2 {
		apply(t, s, NewLog("thr", i).All(2)...)
	}
	first := NewLog("thr", 0).at()
	tests := []struct {
		name  string
		query store.Events
		want  string
	}{
		{"by name", store.Events{Names: []event.Name{event.NameClaim, event.NameDone}}, "claim done claim done"},
		{"without names", store.Events{
			Without: []event.Name{event.NameClaim, event.NameInput, event.NameToolOutput}, Before: 1,
		}, "metadata text text text text done"},
		{"without deltas", store.Events{Blocks: true, Before: 1}, "claim input metadata text text tool_output done"},
		{"from a time", store.Events{Since: first.Add(68 * time.Second)}, "done"},
		{"until a time", store.Events{Until: first.Add(2 * time.Second)}, "claim input"},
		{"of a request from n on", store.Events{
			RequestID: NewLog("thr", 1).RequestID, After: store.Position{N: 7},
		}, "tool_output done"},
		{"before an index, after a place", store.Events{
			Before: 1, After: store.Position{RequestID: NewLog("thr", 0).RequestID, N: 8},
		}, "done"},
		{"at most so many", store.Events{Limit: 3}, "claim input metadata"},
	}
	for _, test := range tests {
		q := test.query
		q.Tenant = Tenant
		if q.RequestID == "" {
			q.ThreadID = "thr"
		}
		if q.Limit == 0 {
			q.Limit = 100
		}
		got, err := s.Events(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if names(got) != test.want {
			t.Errorf("%s: got %q, want %q", test.name, names(got), test.want)
		}
	}
}

func countsEnded(t *testing.T, s store.Store) {
	for i := range 3 {
		apply(t, s, NewLog("thr", i).All(1)...)
	}
	running := NewLog("thr", 3)
	apply(t, s, running.Accepted(), running.Thread(), running.Frame(0, event.Claim{Epoch: 1}))
	for before, want := range []int{0, 1, 2, 3, 3} {
		if got, err := s.Ended(t.Context(), Tenant, "thr", before); err != nil || got != want {
			t.Errorf("before %d: got %d, %v, want %d", before, got, err, want)
		}
	}
}
