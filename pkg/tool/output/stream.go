package output

import (
	"sync"
	"time"
)

// The bounds of a Stream.
const (
	Pace      = 100 * time.Millisecond // between two sends
	MaxStream = 64 << 10               // bytes in all
)

const endOfStream = "\n[further output is not shown]\n"

// Stream passes on what a tool prints while it runs: at once when little comes, gathered when much does, and no more
// than MaxStream bytes in all.
type Stream struct {
	send  func(string)
	wake  chan struct{} // holds a token while there is something to send
	quit  chan struct{}
	ended sync.WaitGroup

	mu      sync.Mutex
	pending []byte
	left    int
	closed  bool
}

// NewStream returns a stream that calls send, never concurrently, until Close.
func NewStream(send func(string)) *Stream {
	s := &Stream{send: send, wake: make(chan struct{}, 1), quit: make(chan struct{}), left: MaxStream}
	s.ended.Go(s.run)
	return s
}

// Write takes a piece of output. It never blocks, and does nothing after Close. It is safe for concurrent use.
func (s *Stream) Write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.left < 0 || text == "" {
		return
	}
	if s.left -= len(text); s.left < 0 {
		text = wholeRunes(text[:len(text)+s.left]) + endOfStream
	}
	s.pending = append(s.pending, text...)
	select {
	case s.wake <- struct{}{}:
	default: // a token is there already
	}
}

// Close sends what is left and waits until it is sent.
func (s *Stream) Close() {
	s.mu.Lock()
	wasClosed := s.closed
	s.closed = true
	s.mu.Unlock()
	if !wasClosed {
		close(s.quit)
	}
	s.ended.Wait()
}

// run ends with Close.
func (s *Stream) run() {
	pause := time.NewTicker(Pace)
	defer pause.Stop()
	for {
		select {
		case <-s.wake:
		case <-s.quit:
			s.flush(true)
			return
		}
		s.flush(false)
		pause.Reset(Pace)
		select {
		case <-pause.C:
		case <-s.quit:
		}
	}
}

// flush sends what is pending. A rune that may still be completed waits, unless this is the last time.
func (s *Stream) flush(last bool) {
	s.mu.Lock()
	text := string(s.pending)
	if !last {
		text = wholeRunes(text)
	}
	s.pending = append(s.pending[:0], s.pending[len(text):]...)
	s.mu.Unlock()
	if text = Printable(text); text != "" {
		s.send(text)
	}
}
