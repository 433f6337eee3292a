package bus

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
)

func TestFullnessIsThatOfTheFullestStream(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		storage Storage
		fill    func(b *Bus, i int) error
	}{
		"bytes of the events": {Storage{Memory: true, MaxBytes: 100_000}, func(b *Bus, i int) error {
			_, _, err := b.Accept(t.Context(), record.Accepted{
				Tenant: "t", RequestID: fmt.Sprint("r", i), BodyHash: strings.Repeat("x", 10_000),
			})
			return err
		}},
		"messages of the queue": {Storage{Memory: true, MaxQueue: 10}, func(b *Bus, i int) error {
			return b.Start(t.Context(), record.Accepted{Tenant: fmt.Sprint("t", i), AgentID: "a", RequestID: "r"}, 0)
		}},
		"messages of the backlog": {Storage{Memory: true, MaxQueue: 10}, func(b *Bus, i int) error {
			if i == 0 { // the first pointer of a tenant goes into the queue
				if err := b.Start(t.Context(), record.Accepted{Tenant: "t", AgentID: "a", RequestID: "first"}, 0); err != nil {
					return err
				}
			}
			return b.Start(t.Context(), record.Accepted{Tenant: "t", AgentID: "a", RequestID: fmt.Sprint("r", i)}, 0)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			if err := b.Provision(t.Context(), test.storage); err != nil {
				t.Fatal(err)
			}
			for i := range 8 {
				full, err := b.Fullness(t.Context())
				if want := float64(i) / 10; err != nil || full < want || full > want+.05 {
					t.Fatalf("after %d of 10: got %v %v", i, full, err)
				}
				if err := test.fill(b, i); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestAStreamWithoutALimitIsNeverFull(t *testing.T) {
	t.Parallel()
	b := open(t)
	if err := b.Provision(t.Context(), Storage{Memory: true, MaxBytes: -1}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Accept(t.Context(), record.Accepted{Tenant: "t", RequestID: "r"}); err != nil {
		t.Fatal(err)
	}
	if full, err := b.Fullness(t.Context()); err != nil || full != 0 {
		t.Errorf("got %v %v, want 0", full, err)
	}
}

func TestALostStreamIsNoticed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		lose func(b *Bus) error
		want string
	}{
		"nothing": {func(*Bus) error { return nil }, ""},
		"gone": {func(b *Bus) error {
			return b.conn.JetStream.DeleteStream(t.Context(), b.conn.EventsStream())
		}, "is gone"},
		"made anew": {func(b *Bus) error {
			if err := b.conn.JetStream.DeleteStream(t.Context(), b.conn.EventsStream()); err != nil {
				return err
			}
			_, err := b.conn.JetStream.CreateStream(t.Context(), b.streams(Storage{Memory: true})[0])
			return err
		}, "has incarnation"},
		"without history's place": {func(b *Bus) error {
			return b.conn.JetStream.DeleteConsumer(t.Context(), b.conn.EventsStream(), broker.HistoryConsumer)
		}, "consumer history"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			if err := test.lose(b); err != nil {
				t.Fatal(err)
			}
			err := b.unchanged(t.Context())
			if test.want == "" && err != nil {
				t.Errorf("got %v", err)
			}
			if test.want != "" && (!errors.Is(err, errLost) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want it lost: %s", err, test.want)
			}
		})
	}
}

// TestQueuesOfAnOlderBuildAreMended: they took a second pointer once the duplicate window had passed.
func TestQueuesOfAnOlderBuildAreMended(t *testing.T) {
	t.Parallel()
	b := open(t)
	a := record.Accepted{Tenant: "t", AgentID: "a", RequestID: "r"}
	stream, err := b.conn.JetStream.Stream(t.Context(), b.conn.RequestsStream())
	if err != nil {
		t.Fatal(err)
	}
	old := stream.CachedInfo().Config
	old.MaxMsgsPerSubject, old.DiscardNewPerSubject = -1, false
	if _, err := b.conn.JetStream.UpdateStream(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if held, err := b.StartLate(t.Context(), a); err != nil || held != i+1 {
			t.Fatalf("an old queue holds %d pointers, %v; want %d", held, err, i+1)
		}
	}
	if err := b.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "1 message a subject") {
		t.Errorf("got %v, want an error with the cause", err)
	}
	if err := b.Provision(t.Context(), Storage{Memory: true}); err != nil {
		t.Fatal(err)
	}
	if held, err := b.StartLate(t.Context(), a); err != nil || held != 1 {
		t.Errorf("the queue holds %d pointers to one request, %v; want 1", held, err)
	}
}

func TestLargePayloadsAreLimitedAsEventsAre(t *testing.T) {
	t.Parallel()
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
	if err := b.Provision(t.Context(), Storage{Memory: true, MaxBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	small := bytes.Repeat([]byte("a"), 400<<10)
	ref, err := b.PutObject(t.Context(), "t", "thr", small)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.PutObject(t.Context(), "t", "thr", bytes.Repeat([]byte("b"), 900<<10)); err == nil {
		t.Error("a payload for which there is no room was taken")
	}
	// What was refused leaves the room that it began to fill, and what was there stays.
	if _, err := b.PutObject(t.Context(), "t", "thr", bytes.Repeat([]byte("c"), 400<<10)); err != nil {
		t.Errorf("a payload for which there is room: %v", err)
	}
	if got, err := b.Object(t.Context(), "t", "thr", ref); err != nil || !bytes.Equal(got, small) {
		t.Errorf("the first payload is %d bytes, %v", len(got), err)
	}
}
