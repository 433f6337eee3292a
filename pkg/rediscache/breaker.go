package rediscache

import (
	"sync"
	"time"
)

const (
	tolerance = 3               // failures in a row before the breaker opens
	pause     = 1 * time.Second // until it lets one call try again
)

// breaker keeps a dead Redis from costing every call a time-out. The zero value is closed: calls go through.
type breaker struct {
	mu       sync.Mutex
	failures int
	until    time.Time // while it is open: when the next call may try
}

// allow reports whether a call may be made. After the pause it lets one call through, and holds the others back until
// that one has reported, or for another pause.
func (b *breaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < tolerance {
		return true
	}
	now := time.Now()
	if now.Before(b.until) {
		return false
	}
	b.until = now.Add(pause)
	return true
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
}

func (b *breaker) failed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	b.until = time.Now().Add(pause)
}

// abandoned reports a call without a result about Redis; if it was the probe, the next call may probe at once.
func (b *breaker) abandoned() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Time{}
}
