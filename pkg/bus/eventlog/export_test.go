package eventlog

import "time"

// RingFrames is the limit of the frames in a ring.
const RingFrames = ringFrames

// Unsubscribe loses all live messages that come later.
func (f *Follower) Unsubscribe() { f.feed.stop() }

// DropRing loses the frames of the ring, as if their messages had never come.
func (f *Follower) DropRing() {
	f.feed.mu.Lock()
	defer f.feed.mu.Unlock()
	f.feed.ring, f.feed.bytes = nil, 0
}

// EmptyRing loses the frames of the ring, and keeps their sizes.
func (f *Follower) EmptyRing() {
	f.feed.mu.Lock()
	defer f.feed.mu.Unlock()
	f.feed.ring = f.feed.ring[len(f.feed.ring):]
}

// InRing reports whether the ring has event n, and whether it has only later ones.
func (f *Follower) InRing(n uint64) (ok, behind bool) {
	_, ok, _, behind = f.feed.at(n)
	return ok, behind
}

// WaitForMessages makes the follower read storage after a message or a reconnect alone.
func (f *Follower) WaitForMessages() {
	f.checks.At = time.Now().Add(time.Hour)
	f.doubt = false
}
