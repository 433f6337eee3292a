package eventlog

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/nats-io/nats.go"
)

// Limits of the ring of recent frames that a log's readers in this process share.
const (
	ringBytes  = 512 << 10
	ringFrames = 512
)

// liveBacklog bounds the live messages of one log that wait while all its readers are busy. Messages above it are dropped,
// and their frames read from storage.
const liveBacklog = 64

// feeds are the live parts of the logs that this process follows: one subscription and one ring for each log, however many
// readers it has.
type feeds struct {
	mu     sync.Mutex
	byLive map[string]*feed // by live subject
}

// feed is the live part of one log. One of its readers at a time moves the messages into the ring, so that a message wakes a
// single reader.
type feed struct {
	live     string
	messages chan *nats.Msg
	stop     func() // ends the subscription
	readers  atomic.Int32

	mu      sync.Mutex
	taken   bool          // a reader waits for messages: a second one could reorder them
	ring    []event.Frame // consecutive, the newest last; without the frames that the only reader has taken
	bytes   int
	end     uint64        // n that follows the newest received frame; 0 before the first one
	changed chan struct{} // closed when the ring grows or taken becomes false, and replaced
}

// join returns the feed of a live subject, subscribing if it is the first reader.
func (fs *feeds) join(b broker.Subscriber, live string) (*feed, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.byLive[live]; f != nil {
		f.readers.Add(1)
		return f, nil
	}
	f := &feed{live: live, messages: make(chan *nats.Msg, liveBacklog), changed: make(chan struct{})}
	stop, err := b.Subscribe(live, f.messages)
	if err != nil {
		return nil, err
	}
	f.stop = stop
	f.readers.Store(1)
	if fs.byLive == nil {
		fs.byLive = make(map[string]*feed)
	}
	fs.byLive[live] = f
	return f, nil
}

func (fs *feeds) leave(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.readers.Add(-1) > 0 {
		return
	}
	delete(fs.byLive, f.live)
	f.stop()
}

// wait returns when the ring has grown, when no other reader waits for messages any more, when the connection is back after
// a loss, when ctx is done, or at due.
func (f *feed) wait(ctx context.Context, changed, back <-chan struct{}, due <-chan time.Time) {
	var messages <-chan *nats.Msg
	f.mu.Lock()
	if !f.taken {
		f.taken, messages = true, f.messages
	}
	f.mu.Unlock()
	var msg *nats.Msg
	select {
	case msg = <-messages:
	case <-changed:
	case <-back:
	case <-due:
	case <-ctx.Done():
	}
	if messages == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken = false
	if msg != nil {
		f.receive(msg)
	}
	f.announce()
}

// collect moves received messages into the ring, unless a reader waits for them. It must be called with mu held.
func (f *feed) collect() {
	for !f.taken {
		select {
		case msg := <-f.messages:
			f.receive(msg)
			f.announce()
		default:
			return
		}
	}
}

// announce must be called with mu held.
func (f *feed) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// receive must be called with mu held.
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
	frame, err := ParseFrame(msg.Header, msg.Data, sequence, at)
	if err != nil {
		slog.Warn("live message is not a frame", "subject", msg.Subject, "error", err)
		return
	}
	f.push(frame)
}

// push adds a frame to the ring. After a gap the ring is emptied first: readers fetch the missing frames from storage. It
// must be called with mu held.
func (f *feed) push(frame event.Frame) {
	if frame.First < f.end {
		return // seen already
	}
	if frame.First > f.end {
		f.ring, f.bytes = nil, 0
	}
	f.ring, f.end = append(f.ring, frame), frame.Next()
	f.bytes += len(frame.Lines)
	for len(f.ring) > 1 && (f.bytes > ringBytes || len(f.ring) > ringFrames) {
		f.bytes -= len(f.ring[0].Lines)
		f.ring[0] = event.Frame{} // or the array would keep its lines
		f.ring = f.ring[1:]
	}
}

// at returns the frame that contains event n, cut to start there. If the ring does not have it, at returns a channel that is
// closed when the ring grows, and whether the ring has later events, so that event n must be read from storage.
func (f *feed) at(n uint64) (frame event.Frame, ok bool, changed <-chan struct{}, behind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.collect()
	if n >= f.end {
		return event.Frame{}, false, f.changed, false
	}
	if len(f.ring) == 0 || n < f.ring[0].First {
		return event.Frame{}, false, f.changed, true
	}
	i := len(f.ring) - 1
	for f.ring[i].First > n {
		i--
	}
	return f.ring[i].From(n), true, f.changed, false
}

// took removes the frames before event n, if their reader is the only one.
func (f *feed) took(n uint64) {
	if f.readers.Load() > 1 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.ring) > 0 && f.ring[0].Next() <= n {
		f.bytes -= len(f.ring[0].Lines)
		f.ring[0] = event.Frame{}
		f.ring = f.ring[1:]
	}
	if len(f.ring) == 0 {
		f.ring = nil
	}
}

// oldest returns the first frame of the ring, and false when the ring is empty.
func (f *feed) oldest() (event.Frame, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ring) == 0 {
		return event.Frame{}, false
	}
	return f.ring[0], true
}
