package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"pgregory.net/rapid"
)

func keepsWholeFrame(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	whole := l.Frame(0, l.Bodies(100)...)
	if got := apply(t, s, l.Accepted(), l.Thread(), whole).Events; got != 107 {
		t.Errorf("got %d new events, want 107", got)
	}
	wantLog(t, s, l.RequestID, lines(whole))
	blocks, err := s.Events(t.Context(), store.Events{Tenant: Tenant, RequestID: l.RequestID, Blocks: true, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(blocks), "claim input metadata text text tool_output done"; got != want {
		t.Errorf("without deltas: got %q, want %q", got, want)
	}
	r, err := s.Request(t.Context(), Tenant, l.RequestID)
	if err != nil || r.Next != 107 || !r.EndedAt.Equal(l.at().Add(106*time.Second)) {
		t.Errorf("got request %+v, %v, want it ended by its last event", r, err)
	}
	if got := apply(t, s, whole, l.Frame(50, l.Bodies(100)[50:]...), l.Frame(30, l.Bodies(100)[30:60]...)).Events; got != 0 {
		t.Errorf("got %d new events from repetitions cut otherwise, want none", got)
	}
	wantLog(t, s, l.RequestID, lines(whole))
}

// readsFrames reads the log from each event on, in pages of several sizes.
func readsFrames(t *testing.T, s store.Store) {
	first := NewLog("thr", 0)
	second := first
	second.Incarnation = "i2"
	bodies := first.Bodies(40)
	entries := append(first.Frames(11, bodies[:30]...), second.Frame(30, bodies[30:]...))
	apply(t, s, append(entries, first.Accepted(), first.Thread())...)
	want := lines(entries...)
	for from := range uint64(len(bodies) + 2) {
		for _, q := range []store.Frames{{Limit: 1}, {Limit: 7}, {Limit: 1000}, {Limit: 1000, Bytes: 1}, {Limit: 1000, Bytes: 3000}} {
			q.Tenant, q.RequestID, q.From = Tenant, first.RequestID, from
			wantSame(t, fmt.Sprintf("from %d, %d events and %d bytes a page", from, q.Limit, q.Bytes),
				framesFrom(t, s, q), want[min(from, uint64(len(want))):])
		}
	}
}

// framesFrom reads to its end a log that changes its incarnation at event 30. It checks that each frame continues where
// the one before ended.
func framesFrom(t *testing.T, s store.Store, q store.Frames) []string {
	t.Helper()
	var all []string
	for {
		frames, err := s.Frames(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(frames) == 0 {
			return all
		}
		events, size := 0, 0
		for _, f := range frames {
			incarnation := "i1"
			if f.First >= 30 {
				incarnation = "i2"
			}
			if f.First != q.From || f.Incarnation != incarnation || q.Bytes > 0 && size > q.Bytes {
				t.Fatalf("after event %d and %d bytes: got the frame %s of %d to %d", q.From, size, f.Incarnation, f.First, f.Next())
			}
			all = append(all, lines(store.Entry{Frame: &f})...)
			q.From, events, size = f.Next(), events+len(f.Names), size+len(f.Lines)
		}
		if events > q.Limit {
			t.Fatalf("got %d events, want at most %d", events, q.Limit)
		}
	}
}

// replacesInsideFrames restores the stream to events in the middle of stored frames, twice in one batch.
func replacesInsideFrames(t *testing.T, s store.Store) {
	for at := range uint64(3) {
		first := NewLog(fmt.Sprintf("thr%d", at), 0)
		second, third := first, first
		second.Incarnation, third.Incarnation = "i2", "i3"
		bodies := first.Bodies(60) // the answer is a run of deltas from 4 to 63
		stored := first.Frames(50, bodies[:65]...)
		apply(t, s, append(stored, first.Accepted(), first.Thread())...)
		n := 57 - 25*at // 57, 32 and 7, after a cut at 40
		result := apply(t, s, second.Frame(40, bodies[40:60]...), third.Frame(n, bodies[n:]...))
		if len(result.Cuts) != 2 || result.Cuts[1].N != n || result.Cuts[1].Was != "i2" {
			t.Fatalf("got cuts %+v", result.Cuts)
		}
		want := slices.Concat(lines(first.Frame(0, bodies...))[:min(n, 40)], lines(second.Frame(0, bodies...))[min(n, 40):n],
			lines(third.Frame(0, bodies...))[n:])
		wantLog(t, s, first.RequestID, want)
		if got, want := result.Events, len(bodies)-int(min(n, 40)); got != want {
			t.Errorf("cut at %d: got %d new events, want %d", n, got, want)
		}
	}
}

func timesUnreadable(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	e := l.Frame(0, event.Claim{Epoch: 1}, event.Claim{Epoch: 1}, event.Claim{Epoch: 1})
	e.Frame.Lines = append([]byte("not JSON at all\n"), bytes.SplitAfter(e.Frame.Lines, []byte("\n"))[1]...)
	e.Frame.Lines = append(e.Frame.Lines, "{\"event\":\"claim\"}\n"...)
	e.Frame.Time = l.at().Add(time.Hour)
	apply(t, s, l.Accepted(), l.Thread(), e)
	for since, want := range map[time.Duration]int{0: 3, time.Minute: 2, time.Hour: 2, time.Hour + time.Microsecond: 0} {
		got, err := s.Events(t.Context(), store.Events{Tenant: Tenant, ThreadID: "thr", Since: l.at().Add(since), Limit: 10})
		if err != nil || len(got) != want {
			t.Errorf("since %s: got %d events, %v, want %d", since, len(got), err, want)
		}
	}
}

// anyQuery asks anything of threads whose frames are cut in any way, and holds the answer against a look at each event.
func anyQuery(t *testing.T, s store.Store) {
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		thread := fmt.Sprintf("thr%d_%s", run, rapid.StringMatching(`[a-z0-9]{16}`).Draw(rt, "thread"))
		var all []store.Event
		for i := range rapid.IntRange(1, 3).Draw(rt, "requests") {
			l := NewLog(thread, i)
			bodies := anyBodies(rt, l)
			whole := l.Frame(0, bodies...)
			for line := range whole.Frame.Each() {
				all = append(all, store.Event{Index: i, RequestID: l.RequestID, N: line.N, Name: line.Name, JSON: line.JSON})
			}
			apply(t, s, append(l.Frames(rapid.IntRange(1, 70).Draw(rt, "frame size"), bodies...), l.Accepted(), l.Thread())...)
		}
		q := anyEvents(rt, thread)
		var want []string
		for _, e := range all {
			if selects(q, e) {
				want = append(want, place(e))
			}
		}
		wantSame(t, fmt.Sprintf("%+v", q), places(t, s, q), want)
	})
}

// anyBodies is a log of blocks that come in any number of deltas.
func anyBodies(rt *rapid.T, l Log) []event.Body {
	bodies := l.Bodies(rapid.IntRange(0, 40).Draw(rt, "deltas"))
	for i := range rapid.IntRange(0, 4).Draw(rt, "blocks") {
		block := event.Block{BlockID: fmt.Sprintf("b%d", i+1), Stage: event.StageStart}
		more := []event.Body{event.ToolCall{Block: block, ToolCallID: "call", Tool: "t"}}
		block.Stage = event.StageDelta
		for range rapid.IntRange(0, 40).Draw(rt, "deltas of a block") {
			more = append(more, event.ToolCall{Block: block, ToolCallID: "call", Delta: `"stage":"stop"`})
		}
		more = append(more, event.Plan{Stage: event.StageDelta}, event.Plan{Stage: event.StageStop, Summary: `"stage":"delta"`})
		bodies = slices.Insert(bodies, 4, more...)
	}
	return bodies
}

func anyEvents(rt *rapid.T, thread string) store.Events {
	name := rapid.SliceOfN(rapid.SampledFrom([]event.Name{
		event.NameText, event.NameToolCall, event.NamePlan, event.NameDone, event.NameToolOutput, "tool", "%", `\`, "_____",
	}), 0, 3)
	at := NewLog(thread, 0).at()
	moment := rapid.Custom(func(rt *rapid.T) time.Time {
		if rapid.Bool().Draw(rt, "none") {
			return time.Time{}
		}
		seconds, micros := rapid.IntRange(-1, 300).Draw(rt, "seconds"), rapid.IntRange(-1, 1).Draw(rt, "microseconds")
		return at.Add(time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond)
	})
	return store.Events{
		Tenant: Tenant, ThreadID: thread,
		Names: name.Draw(rt, "names"), Without: name.Draw(rt, "without"), Blocks: rapid.Bool().Draw(rt, "blocks"),
		Since: moment.Draw(rt, "since"), Until: moment.Draw(rt, "until"), Before: rapid.IntRange(0, 3).Draw(rt, "before"),
		Limit: rapid.IntRange(1, 60).Draw(rt, "limit"), Bytes: rapid.SampledFrom([]int{0, 1, 2000, 1 << 20}).Draw(rt, "bytes"),
	}
}

// selects decides by the event alone whether a query asks for it.
func selects(q store.Events, e store.Event) bool {
	decoded, err := event.Decode(e.JSON)
	if err != nil {
		panic(err) // the suite's own bodies
	}
	if q.Blocks && strings.Contains(string(e.JSON), `,"stage":"delta"`) && e.Name != event.NamePlan {
		return false
	}
	return (len(q.Names) == 0 || slices.Contains(q.Names, e.Name)) && !slices.Contains(q.Without, e.Name) &&
		!decoded.Time.Before(q.Since) && (q.Until.IsZero() || decoded.Time.Before(q.Until)) &&
		(q.Before == 0 || e.Index < q.Before)
}

func dropsAfterTerminalInside(t *testing.T, s store.Store) {
	l := NewLog("thr", 0)
	bodies := l.Bodies(30)
	long := l.Frame(0, append(slices.Clone(bodies), bodies...)...)
	if got := applyAny(t, s, l.Accepted(), l.Thread(), long).Errors[2]; !errors.Is(got, store.ErrStale) {
		t.Errorf("got %v, want stale", got)
	}
	wantLog(t, s, l.RequestID, lines(long)[:len(bodies)])
	apply(t, s, l.Frame(0, bodies...)) // a repetition
}
