package broker

import (
	"sync"
	"time"
)

// Room notes what cannot be learnt by looking at a stream. It is safe for concurrent use.
type Room struct {
	mu      sync.Mutex
	fullAt  time.Time // when the broker last refused a record for lack of room
	askedAt time.Time // when the account could not be looked at
}

const (
	// refusedFor is how long a refusal counts: after it a record shows whether there is room again.
	refusedFor = 10 * time.Second
	// askAfter is the time between attempts to look at an account that could not be looked at.
	askAfter = time.Minute
)

func (r *Room) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fullAt = time.Now()
}

func (r *Room) Refused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.fullAt.IsZero() && time.Since(r.fullAt) < refusedFor
}

func (r *Room) AskLater() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.askedAt = time.Now()
}

func (r *Room) MayAsk() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.askedAt.IsZero() || time.Since(r.askedAt) >= askAfter
}
