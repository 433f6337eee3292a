package broker

import (
	"sync"
	"time"
)

// Clock is an estimate of a remote clock. It is safe for concurrent use.
type Clock struct {
	mu      sync.Mutex
	said    time.Time     // the remote time at local; zero = never measured
	local   time.Time     // with its monotonic reading
	inexact time.Duration // how much said may be wrong
}

func (c *Clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at(time.Now())
}

// at must be called with mu held.
func (c *Clock) at(local time.Time) time.Time {
	if c.said.IsZero() {
		return local
	}
	return c.said.Add(local.Sub(c.local)) // by the monotonic clock: steps of the wall clock do not show
}

// measure adds a measurement: the remote time in a response, and the local times of request and response. A measurement that
// agrees with a more exact one changes nothing, so that the time does not jump back and forth.
func (c *Clock) measure(asked, answered, said time.Time) {
	if said.IsZero() {
		return
	}
	half := answered.Sub(asked) / 2
	local := asked.Add(half)
	c.mu.Lock()
	defer c.mu.Unlock()
	agrees := !c.said.IsZero() && c.at(local).Sub(said).Abs() <= c.inexact+half
	if agrees && half >= c.inexact {
		return
	}
	c.said, c.local, c.inexact = said.Round(0), local, half
}
