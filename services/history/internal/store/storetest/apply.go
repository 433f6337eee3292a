package storetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"pgregory.net/rapid"
)

func givesBack(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	entries := l.All(4)
	if got := apply(t, s, entries...).Events; got != 11 {
		t.Errorf("got %d new events, want 11", got)
	}
	wantLog(t, s, l.RequestID, lines(entries...))
	r, err := s.Request(t.Context(), Tenant, l.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != historyapi.StatusDone || r.Next != 11 || !r.Accepted || r.Owner != "ada" || r.ThreadID != "thr" ||
		!r.CreatedAt.Equal(l.at()) || r.EndedAt.IsZero() || r.Input[0].Content.Text() != "question 0" {
		t.Errorf("got request %+v", r)
	}
}

func keepsOnce(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	entries := l.All(4)
	apply(t, s, entries...)
	if got := apply(t, s, append(entries, entries...)...).Events; got != 0 {
		t.Errorf("got %d new events from a repetition, want none", got)
	}
	wantLog(t, s, l.RequestID, lines(entries...))
}

func takesNewPart(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	bodies := l.Bodies(4)
	apply(t, s, l.Accepted(), l.Thread(), l.Frame(0, bodies[:5]...))
	if got := apply(t, s, l.Frame(3, bodies[3:]...)).Events; got != len(bodies)-5 {
		t.Errorf("got %d new events, want %d", got, len(bodies)-5)
	}
	wantLog(t, s, l.RequestID, lines(l.Frame(0, bodies...)))
}

func refusesHole(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	frames := l.Frames(4, l.Bodies(6)...)
	apply(t, s, l.Accepted(), l.Thread(), frames[0])
	if got := applyAny(t, s, frames[2]).Errors[0]; !errors.Is(got, store.ErrHole) {
		t.Fatalf("got %v, want a hole", got)
	}
	wantLog(t, s, l.RequestID, lines(frames[0]))
	apply(t, s, frames[1])
	apply(t, s, frames[2])
	wantLog(t, s, l.RequestID, lines(frames[:3]...))
}

func fillsHoleInBatch(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	frames := l.Frames(2, l.Bodies(6)...)
	backwards := slices.Clone(frames)
	slices.Reverse(backwards)
	apply(t, s, backwards...)
	wantLog(t, s, l.RequestID, lines(frames...))
}

func refusesAfterTerminal(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	entries := l.All(1)
	apply(t, s, entries...)
	n := uint64(len(lines(entries...)))
	for _, body := range []event.Body{textStop("more"), event.Aborted{Reason: "again"}} {
		if got := applyAny(t, s, l.Frame(n, body)).Errors[0]; !errors.Is(got, store.ErrStale) {
			t.Errorf("%s after the terminal: got %v, want stale", body.Name(), got)
		}
	}
	wantLog(t, s, l.RequestID, lines(entries...))

	twice := NewLog("thr", 1)
	both := twice.Frame(0, event.Aborted{Reason: "first"}, event.Aborted{Reason: "second"})
	if got := applyAny(t, s, both).Errors[0]; !errors.Is(got, store.ErrStale) {
		t.Errorf("two terminals in a frame: got %v, want stale", got)
	}
	wantLog(t, s, twice.RequestID, lines(both)[:1])
}

func replacesDiverged(t *testing.T, s store.Store) {
	was := NewLog("thr", 0)
	is := was
	is.Incarnation, is.Text = "i2", "another"
	before := was.Frames(3, was.Bodies(6)[:9]...)
	after := is.Frame(5, textStop("changed"), event.Aborted{Reason: "restored"})

	apply(t, s, append(before, was.Accepted(), was.Thread())...)
	result := apply(t, s, after)
	if want := (store.Cut{Tenant: Tenant, RequestID: was.RequestID, N: 5, Was: "i1", Is: "i2"}); len(result.Cuts) != 1 ||
		result.Cuts[0] != want {
		t.Errorf("got cuts %v, want %v", result.Cuts, want)
	}
	want := slices.Concat(lines(before...)[:5], lines(after))
	wantLog(t, s, was.RequestID, want)

	apply(t, s, before[0], after) // what the restored stream delivers again
	wantLog(t, s, was.RequestID, want)
	if got := applyAny(t, s, before[2]).Errors[0]; !errors.Is(got, store.ErrStale) {
		t.Errorf("an event of the lost log after the end: got %v, want stale", got)
	}
}

func continuesIncarnation(t *testing.T, s store.Store) {
	was := NewLog("thr", 0)
	is := was
	is.Incarnation = "i2"
	bodies := was.Bodies(6)
	first, second := was.Frame(0, bodies[:6]...), is.Frame(6, bodies[6:]...)
	apply(t, s, first, second)
	apply(t, s, first, second)
	wantLog(t, s, was.RequestID, lines(first, second))
}

func takesAnyOrder(t *testing.T, s store.Store) {
	want := ""
	for i, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		l := NewLog("thr", 0)
		l.Tenant = Tenant + string(rune('a'+i))
		parts := []store.Entry{l.Accepted(), l.Thread(), l.Frame(0, l.Bodies(2)...)}
		for _, part := range order {
			apply(t, s, parts[part])
		}
		thread, err := s.Thread(t.Context(), l.Tenant, "thr")
		if err != nil {
			t.Fatal(err)
		}
		request, err := s.Request(t.Context(), l.Tenant, l.RequestID)
		if err != nil {
			t.Fatal(err)
		}
		got := clip([]string{asJSON(t, thread), asJSON(t, request)})
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("order %v:\n got %s\nwant %s", order, got, want)
		}
	}
}

func rebuilds(t *testing.T, s store.Store) {
	var entries []store.Entry
	for i := range 5 {
		entries = append(entries, NewLog("thr", i).All(3+i)...)
	}
	deliver(t, s, entries...)
	want := dump(t, s, Tenant, "thr")

	other := slices.Clone(entries)
	for i := range other {
		other[i].Tenant = "copy"
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
	deliver(t, s, other...)
	deliver(t, s, entries...)
	if got := dump(t, s, Tenant, "thr"); got != want {
		t.Errorf("a second delivery changed the rows:\n got %s\nwant %s", got, want)
	}
	if got := dump(t, s, "copy", "thr"); got != want {
		t.Errorf("a build in another order gives other rows:\n got %s\nwant %s", got, want)
	}
}

func anyDelivery(t *testing.T, s store.Store) {
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		l := NewLog("thr", 0)
		l.RequestID += string(rune('a'+run%26)) + rapid.StringMatching(`[a-z0-9]{20}`).Draw(rt, "request")
		l.ThreadID = l.RequestID
		bodies := l.Bodies(rapid.IntRange(0, 20).Draw(rt, "deltas"))
		deliveries := append(l.Frames(rapid.IntRange(1, 6).Draw(rt, "frame size"), bodies...), l.Accepted(), l.Thread())
		// A runner's retry after a time-out may cut its frames otherwise.
		deliveries = append(deliveries, l.Frames(rapid.IntRange(1, 6).Draw(rt, "other size"), bodies...)...)
		deliver(t, s, rapid.Permutation(deliveries).Draw(rt, "order")...)
		wantLog(t, s, l.RequestID, lines(l.Frame(0, bodies...)))
	})
}

func concurrentWriters(t *testing.T, s store.Store) {
	var entries []store.Entry
	for i := range 3 {
		entries = append(entries, NewLog("thr", i).All(20)...)
	}
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			mine := slices.Clone(entries)
			rand.New(rand.NewPCG(7, uint64(i))).Shuffle(len(mine), func(a, b int) { mine[a], mine[b] = mine[b], mine[a] })
			for range 100 {
				result, err := s.Apply(t.Context(), mine, store.Known{})
				if err == nil && !slices.ContainsFunc(result.Errors, func(err error) bool { return err != nil }) {
					return // everything is stored, by us or by others
				}
			}
			t.Error("entries are still refused after 100 deliveries")
		})
	}
	writers.Wait()
	for i := range 3 {
		wantLog(t, s, NewLog("thr", i).RequestID, lines(NewLog("thr", i).All(20)...))
	}
}

func keepsUnreadable(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	e := l.Frame(0, event.Claim{Epoch: 1, Runner: "r"})
	e.Frame.Lines = []byte("not JSON at all\n")
	apply(t, s, l.Accepted(), l.Thread(), e, l.Frame(1, event.Aborted{}))
	wantLog(t, s, l.RequestID, append([]string{"not JSON at all"}, lines(l.Frame(1, event.Aborted{}))...))
}

func keepsAnyText(t *testing.T, s store.Store) {
	for i, text := range []string{"", "\u2028\u0000\\\"'", "Ω≈ç√ 😀", "'; DROP TABLE events; --", "$1 ? :x @y", string(make([]byte, 1<<16))} {
		l := NewLog("thr", i)
		l.Text = text
		apply(t, s, l.All(1)...)
		wantLog(t, s, l.RequestID, lines(l.All(1)...))
		r, err := s.Request(t.Context(), Tenant, l.RequestID)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Input[0].Content.Text(); got != text {
			t.Errorf("got input %.40q, want %.40q", got, text)
		}
	}
}

func storesThousands(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	entries := append([]store.Entry{l.Accepted(), l.Thread()}, l.Frames(50, l.Bodies(5000)...)...)
	for batch := range slices.Chunk(entries, 64) {
		apply(t, s, batch...)
	}
	wantLog(t, s, l.RequestID, lines(entries...))
}
