package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
)

// open returns a bus on a server of its own.
func open(t *testing.T) *Bus {
	t.Helper()
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	b, err := Connect(t.Context(), Options{InProcess: server, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Provision(t.Context(), Storage{Memory: true}); err != nil {
		t.Fatal(err)
	}
	return b
}

func write(ctx context.Context, t *testing.T, w *Writer, from, to int) {
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
func readAll(ctx context.Context, f *Follower, want uint64) error {
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
		lose func(t *testing.T, f *Follower) // called after 10 of 30 events
	}{
		{"none is lost", func(*testing.T, *Follower) {}},
		{"all that follow are lost, the last one too", func(_ *testing.T, f *Follower) {
			f.feed.stop()
		}},
		{"some in the middle are lost", func(_ *testing.T, f *Follower) {
			f.feed.mu.Lock()
			defer f.feed.mu.Unlock()
			f.feed.ring, f.feed.bytes = nil, 0
		}},
		{"all that came so far are lost", func(_ *testing.T, f *Follower) {
			f.feed.mu.Lock()
			defer f.feed.mu.Unlock()
			f.feed.ring = f.feed.ring[len(f.feed.ring):]
		}},
	}
	b := open(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			log := LogID{Tenant: "t", RequestID: id.New(id.Request)}
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
	const events = ringFrames + 200
	tests := []struct {
		name  string
		reads bool // the other follower does, meanwhile
	}{
		{"another reader takes the live messages, and the ring turns over", true},
		{"nobody takes the live messages", false},
	}
	b := open(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			log := LogID{Tenant: "t", RequestID: id.New(id.Request)}
			var followers [2]*Follower
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
			_, ok, _, behind := followers[0].feed.at(0)
			if test.reads && ok || !test.reads && behind {
				t.Fatalf("the first event is at hand: %t, behind the ring: %t: the test shows nothing", ok, behind)
			}
			if err := readAll(t.Context(), followers[0], events+2); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFollowersOfOneLogShareASubscription(t *testing.T) {
	t.Parallel()
	b := open(t)
	log := LogID{Tenant: "t", RequestID: id.New(id.Request)}
	before := b.nc.NumSubscriptions()
	var followers []*Follower
	for range 10 {
		f, err := b.Follow(t.Context(), log, 0)
		if err != nil {
			t.Fatal(err)
		}
		followers = append(followers, f)
	}
	if got := b.nc.NumSubscriptions() - before; got != 1 {
		t.Errorf("ten followers hold %d subscriptions, want 1", got)
	}
	for _, f := range followers {
		f.Close()
		f.Close()
	}
	if got := b.nc.NumSubscriptions(); got != before {
		t.Errorf("%d subscriptions stayed behind", got-before)
	}
}

func TestSubjectsTakeOnlyTokens(t *testing.T) {
	t.Parallel()
	b := &Bus{prefix: "p"}
	if s, err := b.subject(kindEvent, "t", "req_1"); s != "p.event.t.req_1" || err != nil {
		t.Fatalf("got %q (%v)", s, err)
	}
	if got := b.live("p.event.t.r"); got != "p.live.event.t.r" {
		t.Fatalf("got %q", got)
	}
	for _, bad := range []string{"", "*", ">", "a.b", "a ", "é", "a\x00"} {
		if s, err := b.subject(kindEvent, bad); err == nil {
			t.Errorf("token %q gave %q, want an error", bad, s)
		}
	}
}

func FuzzSubject(f *testing.F) {
	for _, seed := range []string{"req_1", "*", "a.b", "$JS.API.STREAM.DELETE.EVENTS", "a b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		b := &Bus{prefix: "p"}
		s, err := b.subject(kindEvent, "tenant", token)
		if err != nil {
			return
		}
		if kind, rest := b.tokens(s); kind != kindEvent || len(rest) != 2 || rest[1] != token {
			t.Fatalf("token %q gave subject %q", token, s)
		}
	})
}
