package bus

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/bus/kv"
	"github.com/agentbus/agentbus/pkg/bus/relaytest"
	"github.com/agentbus/agentbus/pkg/record"
)

// behindRelay returns a bus on a server, another one whose connection passes the relay, and the relay.
func behindRelay(t *testing.T) (near, far *Bus, r *relaytest.Relay) {
	t.Helper()
	s, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r = relaytest.New(t, s.URL()[len("nats://"):])
	connect := func(url string) *Bus {
		b, err := Connect(t.Context(), Options{URL: url, Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		if err := b.Provision(t.Context(), Storage{Memory: true}); err != nil {
			t.Fatal(err)
		}
		return b
	}
	return connect(s.URL()), connect("nats://" + r.Addr().String()), r
}

// outage cuts the connection of far, does what far must miss, and lets far connect again.
func outage(t *testing.T, far *Bus, r *relaytest.Relay, missed func()) {
	t.Helper()
	r.SetCut(true)
	for far.conn.NATS.IsConnected() {
		time.Sleep(time.Millisecond)
	}
	missed()
	r.SetCut(false)
}

// soonAfter bounds what must happen within a second of a reconnect: generous for a loaded machine, and far less than the
// rarest look.
const soonAfter = 5 * time.Second

// backedOff is how long a reader must have been idle so that its next look is more than soonAfter away.
const backedOff = 7500 * time.Millisecond

func TestAfterAReconnectThreadFollowersLookAtOnce(t *testing.T) {
	t.Parallel()
	near, far, relay := behindRelay(t)
	subject, err := far.conn.Subject(broker.KindThread, "t", "th")
	if err != nil {
		t.Fatal(err)
	}
	f, err := far.conn.Tail(t.Context(), far.conn.EventsStream(), subject, far.conn.Live(subject), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Stale, f.Checks.At = false, time.Now().Add(time.Hour)
	outage(t, far, relay, func() {
		if _, err := near.AdvanceThread(t.Context(), "t", record.Thread{ThreadID: "th", RequestID: "r"}, 0); err != nil {
			t.Error(err)
		}
	})
	m, err := f.Next(t.Context(), soonAfter)
	var got record.Thread
	if err == nil {
		err = m.Decode(&got)
	}
	if err != nil || got.RequestID != "r" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAfterAReconnectKeysAreLookedAtOnce(t *testing.T) {
	t.Parallel()
	near, far, relay := behindRelay(t)
	ctx, cancel := context.WithCancel(t.Context())
	changed, ready, ended := make(chan kv.KeyRecord, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- far.WatchKeys(ctx, func(k kv.KeyRecord) { changed <- k }, func() { close(ready) })
	}()
	<-ready
	time.Sleep(backedOff)
	outage(t, far, relay, func() {
		if err := near.PutKey(t.Context(), kv.KeyRecord{ID: "k", Revoked: true}); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-changed:
	case <-time.After(soonAfter):
		t.Error("the revoked key was not seen")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAfterAReconnectAResultIsLookedForAtOnce(t *testing.T) {
	t.Parallel()
	near, far, relay := behindRelay(t)
	log := broker.LogID{Tenant: "t", RequestID: "r"}
	found := make(chan error, 2)
	go func() {
		_, err := far.AwaitToolResult(t.Context(), log, "c", func(record.ToolProgress) {})
		found <- err
	}()
	stop, err := far.WatchAbort(t.Context(), log, func(record.Abort) { found <- nil })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	time.Sleep(backedOff)
	outage(t, far, relay, func() {
		if _, _, err := near.PutToolResult(t.Context(), log, record.ToolResult{ToolCallID: "c"}); err != nil {
			t.Error(err)
		}
		if _, err := near.Abort(t.Context(), log.Tenant, record.Abort{RequestID: log.RequestID}); err != nil {
			t.Error(err)
		}
	})
	late := time.After(soonAfter)
	for range 2 {
		select {
		case err := <-found:
			if err != nil {
				t.Error(err)
			}
		case <-late:
			t.Fatal("the result or the abort was not seen")
		}
	}
}

func TestAnAnswerThatDiedWithItsConnectionIsNotAwaited(t *testing.T) {
	t.Parallel()
	near, far, relay := behindRelay(t)
	asked, err := near.conn.NATS.SubscribeSync("$JS.API.DIRECT.GET.SILENT.x") // takes the question and never answers
	if err != nil {
		t.Fatal(err)
	}
	if err := near.conn.NATS.Flush(); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := far.conn.LastDirect(t.Context(), "SILENT", "x")
		failed <- err
	}()
	if _, err := asked.NextMsg(time.Minute); err != nil {
		t.Fatal(err)
	}
	relay.SetCut(true)
	if err := <-failed; !errors.Is(err, broker.ErrDown) {
		t.Errorf("got %v, want that the connection is down", err)
	}
}
