package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/bus/eventlog"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
)

func write(ctx context.Context, t *testing.T, w *eventlog.Writer, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := w.Emit(event.Custom{Type: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// readAll reads to the end, and returns an error when something is missing.
func readAll(ctx context.Context, f *eventlog.Follower, want uint64) error {
	var next uint64
	for {
		frame, err := f.Next(ctx, 20*time.Second)
		switch {
		case errors.Is(err, io.EOF) && next == want:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("got %d events, want %d", next, want)
		case err != nil:
			return err
		case frame.First != next:
			return fmt.Errorf("frame starts at %d, want %d", frame.First, next)
		}
		next = frame.Next()
	}
}

func TestFollowerSurvivesLostLiveMessages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		lose func(t *testing.T, f *eventlog.Follower) // called after 10 of 30 events
	}{
		{"none is lost", func(*testing.T, *eventlog.Follower) {}},
		{"all that follow are lost, the last one too", func(_ *testing.T, f *eventlog.Follower) {
			f.Unsubscribe()
		}},
		{"some in the middle are lost", func(_ *testing.T, f *eventlog.Follower) {
			f.DropRing()
		}},
		{"all that came so far are lost", func(_ *testing.T, f *eventlog.Follower) {
			f.EmptyRing()
		}},
	}
	b := bustest.New(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			log := record.LogID{Tenant: "t", RequestID: id.New(id.Request)}
			f, err := b.Follow(t.Context(), log, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			w, _, err := b.Claim(t.Context(), log, "r", "")
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			write(t.Context(), t, w, 0, 10)
			test.lose(t, f)
			write(t.Context(), t, w, 10, 30)
			if err := w.Emit(event.Done{}); err != nil {
				t.Fatal(err)
			}
			if err := readAll(t.Context(), f, 32); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSlowFollowerReadsStorage(t *testing.T) {
	t.Parallel()
	const events = eventlog.RingFrames + 200
	tests := []struct {
		name  string
		reads bool // the other follower does, meanwhile
	}{
		{"another reader takes the live messages, and the ring turns over", true},
		{"no reader takes the live messages", false},
	}
	b := bustest.New(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			log := record.LogID{Tenant: "t", RequestID: id.New(id.Request)}
			var followers [2]*eventlog.Follower
			for i := range followers {
				f, err := b.Follow(t.Context(), log, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				followers[i] = f
			}
			w, _, err := b.Claim(t.Context(), log, "r", "")
			if err != nil {
				t.Fatal(err)
			}
			var other sync.WaitGroup
			if test.reads {
				other.Go(func() {
					if err := readAll(t.Context(), followers[1], events+2); err != nil {
						t.Error(err)
					}
				})
			}
			write(t.Context(), t, w, 0, events)
			_ = w.Emit(event.Done{})
			w.Close()
			other.Wait()
			ok, behind := followers[0].InRing(0)
			if test.reads && ok || !test.reads && behind {
				t.Fatalf("the first event is at hand: %t, behind the ring: %t: the test shows nothing", ok, behind)
			}
			if err := readAll(t.Context(), followers[0], events+2); err != nil {
				t.Error(err)
			}
		})
	}
}
