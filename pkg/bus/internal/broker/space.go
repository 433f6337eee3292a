package broker

import (
	"sync"
	"time"
)

// Space records refusals for lack of space, and when the account could not be read. It is safe for concurrent use.
type Space struct {
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

func (r *Space) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fullAt = time.Now()
}

// Refused reports whether the broker has refused a record recently.
func (r *Space) Refused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.fullAt.IsZero() && time.Since(r.fullAt) < refusedFor
}

// AskLater records that the account could not be read.
func (r *Space) AskLater() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.askedAt = time.Now()
}

// MayAsk reports whether the account may be read again.
func (r *Space) MayAsk() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.askedAt.IsZero() || time.Since(r.askedAt) >= askAfter
}
