package bus

import (
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/nats-io/nats.go"
)

// Limits of the ring of recent frames that a log's readers in this process share.
const (
	ringBytes  = 512 << 10
	ringFrames = 512
)

// liveBacklog bounds the live messages that wait to be sorted into feeds. What is dropped is read from storage.
const liveBacklog = 16384

// feeds are the logs that this process follows: one subscription and one ring each, however many readers.
type feeds struct {
	mu     sync.Mutex
	byLive map[string]*feed // by live subject
	live   chan *nats.Msg
	quit   chan struct{}
	done   chan struct{}
}

// feed is one followed log.
type feed struct {
	live    string
	sub     *nats.Subscription
	readers int // guarded by feeds.mu

	mu      sync.Mutex
	ring    []event.Frame // consecutive, newest last
	bytes   int
	changed chan struct{} // closed when the ring grows, and replaced
}

func (fs *feeds) start() {
	fs.byLive = make(map[string]*feed)
	fs.live = make(chan *nats.Msg, liveBacklog)
	fs.quit = make(chan struct{})
	fs.done = make(chan struct{})
	go fs.sort()
}

// stop must be called once, after the connection is closed.
func (fs *feeds) stop() {
	close(fs.quit)
	<-fs.done
}

// sort gives each live message to its feed until stop is called.
func (fs *feeds) sort() {
	defer close(fs.done)
	for {
		select {
		case msg := <-fs.live:
			fs.mu.Lock()
			f := fs.byLive[msg.Subject]
			fs.mu.Unlock()
			if f != nil {
				f.receive(msg)
			}
		case <-fs.quit:
			return
		}
	}
}

// join returns the feed of a live subject, subscribing if it is the first reader.
func (fs *feeds) join(nc *nats.Conn, live string) (*feed, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.byLive[live]; f != nil {
		f.readers++
		return f, nil
	}
	sub, err := nc.ChanSubscribe(live, fs.live)
	if err != nil {
		return nil, err
	}
	f := &feed{live: live, sub: sub, readers: 1, changed: make(chan struct{})}
	fs.byLive[live] = f
	return f, nil
}

func (fs *feeds) leave(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.readers--
	if f.readers > 0 {
		return
	}
	delete(fs.byLive, f.live)
	_ = f.sub.Unsubscribe() // fails only when the connection is gone, and the subscription with it
}

func (f *feed) receive(msg *nats.Msg) {
	sequence, err := strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		slog.Warn("live message without a sequence", "subject", msg.Subject)
		return
	}
	at, err := time.Parse(time.RFC3339Nano, msg.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		at = time.Now()
	}
	frame, err := parseFrame(msg.Header, msg.Data, sequence, at)
	if err != nil {
		slog.Warn("live message is no frame", "subject", msg.Subject, "error", err)
		return
	}
	f.push(frame)
}

// push adds a frame to the ring. After a gap the ring starts anew: readers fetch what is missing from storage.
func (f *feed) push(frame event.Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ring) > 0 {
		switch end := f.ring[len(f.ring)-1].Next(); {
		case frame.First < end:
			return // seen already
		case frame.First > end:
			f.ring, f.bytes = nil, 0
		}
	}
	f.ring = append(f.ring, frame)
	f.bytes += len(frame.Lines)
	for len(f.ring) > 1 && (f.bytes > ringBytes || len(f.ring) > ringFrames) {
		f.bytes -= len(f.ring[0].Lines)
		f.ring = f.ring[1:]
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// at returns the frame that holds event n, cut to start there. Without one it returns a channel that is closed when
// the ring grows, and whether the ring holds later events, so that n must be looked for in storage.
func (f *feed) at(n uint64) (frame event.Frame, ok bool, changed <-chan struct{}, behind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ring) == 0 || n >= f.ring[len(f.ring)-1].Next() {
		return event.Frame{}, false, f.changed, false
	}
	if n < f.ring[0].First {
		return event.Frame{}, false, f.changed, true
	}
	for i := len(f.ring) - 1; ; i-- {
		if f.ring[i].First <= n {
			return f.ring[i].From(n), true, f.changed, false
		}
	}
}
