package bus

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/record"
)

// relay passes connections on to a server, and can cut them and refuse new ones.
type relay struct {
	net.Listener
	target string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, target: target, conns: map[net.Conn]struct{}{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		r.setCut(true)
		all.Wait()
	})
	return r
}

func (r *relay) pass(client net.Conn) {
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		_ = client.Close()
		return
	}
	r.mu.Lock()
	if r.cut {
		_ = client.Close()
		_ = server.Close()
	}
	r.conns[client], r.conns[server] = struct{}{}, struct{}{}
	r.mu.Unlock()
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		})
	}
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, client)
	delete(r.conns, server)
}

func (r *relay) setCut(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	for c := range r.conns {
		if cut {
			_ = c.Close()
		}
	}
}

// behindRelay returns a bus on a server, another one whose connection passes the relay, and the relay.
func behindRelay(t *testing.T) (near, far *Bus, r *relay) {
	t.Helper()
	s, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r = newRelay(t, s.URL()[len("nats://"):])
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
func outage(t *testing.T, far *Bus, r *relay, missed func()) {
	t.Helper()
	r.setCut(true)
	for far.nc.IsConnected() {
		time.Sleep(time.Millisecond)
	}
	missed()
	r.setCut(false)
}

// soonAfter bounds what must happen within a second of a reconnect: generous for a loaded machine, and far less than the
// rarest look.
const soonAfter = 5 * time.Second

// backedOff is how long a reader must have been idle so that its next look is more than soonAfter away.
const backedOff = 7500 * time.Millisecond

func TestAfterAReconnectFollowersLookAtOnce(t *testing.T) {
	t.Parallel()
	near, far, relay := behindRelay(t)
	log := LogID{Tenant: "t", RequestID: "r"}
	f, err := far.Follow(t.Context(), log, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.looks.at = time.Now().Add(time.Hour)
	f.doubt = false
	outage(t, far, relay, func() {
		w, _, err := near.Claim(t.Context(), log, "runner", "")
		if err != nil {
			t.Error(err)
			return
		}
		w.Close()
	})
	if frame, err := f.Next(t.Context(), soonAfter); err != nil || frame.First != 0 {
		t.Errorf("got frame from %d, %v", frame.First, err)
	}
}

func TestAfterAReconnectThreadFollowersLookAtOnce(t *testing.T) {
	t.Parallel()
	near, far, relay := behindRelay(t)
	f, err := far.FollowThread(t.Context(), "t", "th", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.tail.stale, f.tail.looks.at = false, time.Now().Add(time.Hour)
	outage(t, far, relay, func() {
		if _, err := near.AdvanceThread(t.Context(), "t", record.Thread{ThreadID: "th", RequestID: "r"}, 0); err != nil {
			t.Error(err)
		}
	})
	if record, err := f.Next(t.Context(), soonAfter); err != nil || record.RequestID != "r" {
		t.Errorf("got %+v, %v", record, err)
	}
}

func TestAfterAReconnectKeysAreLookedAtOnce(t *testing.T) {
	t.Parallel()
	near, far, relay := behindRelay(t)
	ctx, cancel := context.WithCancel(t.Context())
	changed, ready, ended := make(chan KeyRecord, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- far.WatchKeys(ctx, func(k KeyRecord) { changed <- k }, func() { close(ready) })
	}()
	<-ready
	time.Sleep(backedOff)
	outage(t, far, relay, func() {
		if err := near.PutKey(t.Context(), KeyRecord{ID: "k", Revoked: true}); err != nil {
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
	log := LogID{Tenant: "t", RequestID: "r"}
	found := make(chan error, 2)
	go func() {
		_, err := far.AwaitToolResult(t.Context(), log, "c", func(string) {})
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
	asked, err := near.nc.SubscribeSync("$JS.API.DIRECT.GET.SILENT.x") // takes the question and never answers
	if err != nil {
		t.Fatal(err)
	}
	if err := near.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := far.lastDirect(t.Context(), "SILENT", "x")
		failed <- err
	}()
	if _, err := asked.NextMsg(time.Minute); err != nil {
		t.Fatal(err)
	}
	relay.setCut(true)
	if err := <-failed; !errors.Is(err, errDown) {
		t.Errorf("got %v, want that the connection is down", err)
	}
}
