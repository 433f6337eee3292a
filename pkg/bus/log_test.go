package bus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
)

// The log's promises, kept on one server and on a cluster of three: their answers to a compare-and-set differ.
var logPromises = []struct {
	name string
	run  func(*testing.T, *bus.Bus)
}{
	{"numbers events densely from the claim on", numbersDensely},
	{"gives an empty log to its first claimant", givesEmptyLog},
	{"refuses a claim after the terminal event", refusesClaimAfterTerminal},
	{"fences the writer before the newest claim", fencesOlderWriter},
	{"lets exactly one of two racing claimants have an epoch", claimsRace},
	{"keeps every event once when writers overlap", keepsEventsWhenWritersOverlap},
	{"gathers what comes fast into frames", gathersFrames},
	{"refuses an event that fits no message", refusesHugeEvent},
	{"splits a large backlog into frames that fit", splitsBacklog},
	{"reads from any event on", readsFromAnywhere},
	{"follows what comes and ends with the terminal event", followsLive},
	{"follows from any event on, early or late", followsFromAnywhere},
	{"says idle when nothing comes", saysIdle},
	{"refuses ids that are not tokens", refusesBadIDs},
	{"lets the first record win", firstRecordWins},
	{"advances a thread by compare-and-set", advancesThread},
	{"changes a session by compare-and-set", changesSession},
	{"orders a session's records when clocks go back", ordersSession},
	{"follows a thread's records", followsThread},
	{"reports an abort before and after the watch began", tellsOfAbort},
	{"reports the aborts of all requests", tellsOfAllAborts},
	{"keeps what users say to a running request", keepsSteers},
	{"reports an abort and steers in one answer", tellsOfCommands},
	{"says whether a pointer to a request is in the queue", saysWhetherPointed},
	{"keeps one pointer to a request, however late another comes", keepsOnePointer},
	{"sends a call again for another request", sendsCallAgain},
	{"waits for a tool's result and passes its output on", awaitsToolResult},
	{"keeps large payloads", keepsObjects},
}

func TestLogOnOneServer(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for _, p := range logPromises {
		t.Run(p.name, func(t *testing.T) { t.Parallel(); p.run(t, b) })
	}
}

func TestLogOnCluster(t *testing.T) {
	t.Parallel()
	b := bustest.NewCluster(t)
	for _, p := range logPromises {
		t.Run(p.name, func(t *testing.T) { t.Parallel(); p.run(t, b) })
	}
}

func newLog() bus.LogID { return bus.LogID{Tenant: "t", RequestID: id.New(id.Request)} }

func delta(text string) event.Text {
	return event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageDelta}, Delta: text}
}

func claim(t *testing.T, b *bus.Bus, log bus.LogID) *bus.Writer {
	t.Helper()
	w, _, err := b.Claim(t.Context(), log, "runner", "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func emit(t *testing.T, w *bus.Writer, bodies ...event.Body) {
	t.Helper()
	for _, body := range bodies {
		if err := w.Emit(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// readLog returns the events of a log from n on, and fails on a hole.
func readLog(t *testing.T, b *bus.Bus, log bus.LogID, from uint64) []event.Event {
	t.Helper()
	var events []event.Event
	next := from
	for f, err := range b.Read(t.Context(), log, from) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, checkFrame(t, f, next)...)
		next = f.Next()
	}
	return events
}

func checkFrame(t *testing.T, f event.Frame, next uint64) []event.Event {
	t.Helper()
	if f.First != next {
		t.Fatalf("frame starts at event %d, want %d", f.First, next)
	}
	events, err := f.Events()
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if want := event.NewCursor(f.Incarnation, next+uint64(i)); e.ID != want {
			t.Fatalf("event has id %s, want %s", e.ID, want)
		}
	}
	return events
}

func text(events []event.Event) string {
	var all strings.Builder
	for _, e := range events {
		if body, ok := e.Body.(event.Text); ok {
			all.WriteString(body.Delta)
		}
	}
	return all.String()
}

func numbersDensely(t *testing.T, b *bus.Bus) {
	log := newLog()
	w := claim(t, b, log)
	emit(t, w, delta("a"), delta("b"))
	emit(t, w, delta("c"), event.Done{})
	events := readLog(t, b, log, 0)
	if len(events) != 5 || events[0].Body.Name() != event.NameClaim || text(events) != "abc" {
		t.Fatalf("got %v, want claim, a, b, c, done", events)
	}
}

func givesEmptyLog(t *testing.T, b *bus.Bus) {
	w, log, err := b.Claim(t.Context(), newLog(), "r", "")
	if err != nil || len(log) != 0 || w.Epoch() != 1 {
		t.Fatalf("got epoch %d after %d frames (%v), want epoch 1 after none", w.Epoch(), len(log), err)
	}
	w.Close()
}

func refusesClaimAfterTerminal(t *testing.T, b *bus.Bus) {
	log := newLog()
	emit(t, claim(t, b, log), event.Aborted{})
	if _, _, err := b.Claim(t.Context(), log, "r2", ""); !errors.Is(err, bus.ErrEnded) {
		t.Fatalf("got %v, want ErrEnded", err)
	}
}

func fencesOlderWriter(t *testing.T, b *bus.Bus) {
	log := newLog()
	old := claim(t, b, log)
	emit(t, old, delta("kept"))
	young := claim(t, b, log)
	if young.Epoch() != 2 {
		t.Fatalf("got epoch %d, want 2", young.Epoch())
	}
	if err := old.Emit(delta("lost")); err != nil {
		t.Fatal(err)
	}
	if err := old.Flush(t.Context()); !errors.Is(err, bus.ErrFenced) {
		t.Fatalf("old writer got %v, want ErrFenced", err)
	}
	<-old.Lost()
	emit(t, young, delta(" too"), event.Done{})
	if got := text(readLog(t, b, log, 0)); got != "kept too" {
		t.Fatalf("got %q, want %q", got, "kept too")
	}
}

func claimsRace(t *testing.T, b *bus.Bus) {
	for range 10 {
		log := newLog()
		var race sync.WaitGroup
		epochs := make([]uint64, 4)
		for i := range epochs {
			race.Go(func() {
				w, _, err := b.Claim(t.Context(), log, fmt.Sprint("r", i), "")
				if err != nil {
					t.Error(err)
					return
				}
				epochs[i] = w.Epoch()
				w.Close()
			})
		}
		race.Wait()
		seen := map[uint64]bool{}
		for _, e := range epochs {
			if seen[e] {
				t.Fatalf("two claimants have epoch %d: %v", e, epochs)
			}
			seen[e] = true
		}
		if events := readLog(t, b, log, 0); len(events) != len(epochs) {
			t.Fatalf("log has %d claims, want %d", len(events), len(epochs))
		}
	}
}

// keepsEventsWhenWritersOverlap has several runners claim one log at odd moments, each writing until it is fenced.
func keepsEventsWhenWritersOverlap(t *testing.T, b *bus.Bus) {
	log := newLog()
	var runners sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	for r := range 4 {
		runners.Go(func() {
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // odd moments are the point
			w, _, err := b.Claim(t.Context(), log, fmt.Sprint("r", r), "")
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Close()
			for i := range 200 {
				word := fmt.Sprintf("<%d.%d>", r, i)
				if w.Emit(delta(word)) != nil || w.Flush(t.Context()) != nil {
					return
				}
				mu.Lock()
				acknowledged[word] = true
				mu.Unlock()
			}
		})
	}
	runners.Wait()
	var epoch uint64
	seen := map[string]bool{}
	for _, e := range readLog(t, b, log, 0) {
		switch body := e.Body.(type) {
		case event.Claim:
			if body.Epoch != epoch+1 {
				t.Fatalf("epoch %d follows %d", body.Epoch, epoch)
			}
			epoch = body.Epoch
		case event.Text:
			if seen[body.Delta] {
				t.Fatalf("%s is in the log twice", body.Delta)
			}
			seen[body.Delta] = true
		}
	}
	for word := range acknowledged {
		if !seen[word] {
			t.Fatalf("%s was acknowledged and is not in the log", word)
		}
	}
}

func gathersFrames(t *testing.T, b *bus.Bus) {
	log := newLog()
	w := claim(t, b, log)
	const events = 2000
	for i := range events {
		if err := w.Emit(delta(fmt.Sprint(i, " "))); err != nil {
			t.Fatal(err)
		}
	}
	emit(t, w, event.Done{})
	frames := 0
	for _, err := range b.Read(t.Context(), log, 0) {
		if err != nil {
			t.Fatal(err)
		}
		frames++
	}
	if frames > events/2 {
		t.Fatalf("%d events took %d frames, want far fewer", events, frames)
	}
	if got := len(readLog(t, b, log, 0)); got != events+2 {
		t.Fatalf("got %d events, want %d", got, events+2)
	}
}

func refusesHugeEvent(t *testing.T, b *bus.Bus) {
	log := newLog()
	w := claim(t, b, log)
	if err := w.Emit(delta(strings.Repeat("x", 1<<20))); !errors.Is(err, bus.ErrTooLarge) {
		t.Fatalf("got %v, want ErrTooLarge", err)
	}
	emit(t, w, delta("fine"), event.Done{})
	if got := text(readLog(t, b, log, 0)); got != "fine" {
		t.Fatalf("got %q, want %q", got, "fine")
	}
}

func splitsBacklog(t *testing.T, b *bus.Bus) {
	log := newLog()
	w := claim(t, b, log)
	for range 30 {
		if err := w.Emit(delta(strings.Repeat("x", 100<<10))); err != nil {
			t.Fatal(err)
		}
	}
	emit(t, w, event.Done{})
	if got := len(text(readLog(t, b, log, 0))); got != 30*100<<10 {
		t.Fatalf("got %d bytes of text, want %d", got, 30*100<<10)
	}
}

// writeMixed writes a log of 300 deltas in frames of all sizes among other logs, and returns its events.
func writeMixed(t *testing.T, b *bus.Bus, log bus.LogID) []event.Event {
	t.Helper()
	w, other := claim(t, b, log), claim(t, b, newLog())
	for i := range 300 {
		if err := w.Emit(delta(fmt.Sprint(i, ","))); err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			emit(t, w)
			emit(t, other, delta("noise"))
		}
	}
	emit(t, w, event.Done{})
	return readLog(t, b, log, 0)
}

func readsFromAnywhere(t *testing.T, b *bus.Bus) {
	log := newLog()
	all := writeMixed(t, b, log)
	for from := range len(all) + 2 {
		got := readLog(t, b, log, uint64(from))
		if want := max(len(all)-from, 0); len(got) != want {
			t.Fatalf("from %d: got %d events, want %d", from, len(got), want)
		}
	}
}

// follow reads a log to its end.
func follow(t *testing.T, b *bus.Bus, log bus.LogID, from uint64) []event.Event {
	t.Helper()
	f, err := b.Follow(t.Context(), log, from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return followOn(t, f, from)
}

func followOn(t *testing.T, f *bus.Follower, next uint64) []event.Event {
	t.Helper()
	var events []event.Event
	for {
		frame, err := f.Next(t.Context(), 10*time.Second)
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, checkFrame(t, frame, next)...)
		next = frame.Next()
	}
}

func followsLive(t *testing.T, b *bus.Bus) {
	log := newLog()
	f, err := b.Follow(t.Context(), log, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var writer sync.WaitGroup
	writer.Go(func() {
		w, _, err := b.Claim(t.Context(), log, "r", "")
		if err != nil {
			t.Error(err)
			return
		}
		for i := range 500 {
			_ = w.Emit(delta(fmt.Sprint(i, ",")))
			if i%50 == 0 {
				_ = w.Flush(t.Context())
			}
		}
		_ = w.Emit(event.Done{})
		w.Close()
	})
	if got := len(followOn(t, f, 0)); got != 502 {
		t.Fatalf("got %d events, want 502", got)
	}
	writer.Wait()
}

func followsFromAnywhere(t *testing.T, b *bus.Bus) {
	log := newLog()
	w := claim(t, b, log)
	var readers sync.WaitGroup
	for from := range 60 {
		readers.Go(func() {
			if got := len(follow(t, b, log, uint64(from))); got != 102-from {
				t.Errorf("from %d: got %d events, want %d", from, got, 102-from)
			}
		})
		emit(t, w, delta(fmt.Sprint(from)))
	}
	for i := range 40 {
		emit(t, w, delta(fmt.Sprint(i)))
	}
	emit(t, w, event.Done{})
	readers.Wait()
}

func saysIdle(t *testing.T, b *bus.Bus) {
	f, err := b.Follow(t.Context(), newLog(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Next(t.Context(), 10*time.Millisecond); !errors.Is(err, bus.ErrIdle) {
		t.Fatalf("got %v, want ErrIdle", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Next(ctx, time.Minute); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the context's error", err)
	}
}

func refusesBadIDs(t *testing.T, b *bus.Bus) {
	for _, bad := range []string{"", ".", "*", ">", "a.b", "a b", "a\r\nPUB x 0", strings.Repeat("a", 65), strings.Repeat("a", 5000)} {
		if _, _, err := b.Claim(t.Context(), bus.LogID{Tenant: "t", RequestID: bad}, "r", ""); err == nil {
			t.Errorf("claim of request %.20q succeeded", bad)
		}
		if _, err := b.Follow(t.Context(), bus.LogID{Tenant: bad, RequestID: "r"}, 0); err == nil {
			t.Errorf("follow in tenant %.20q succeeded", bad)
		}
		if _, err := b.Thread(t.Context(), "t", bad); err == nil || errors.Is(err, bus.ErrNotFound) {
			t.Errorf("thread %.20q was looked up: %v", bad, err)
		}
	}
	if err := b.Ready(t.Context()); err != nil {
		t.Fatalf("the connection did not survive: %v", err)
	}
}
