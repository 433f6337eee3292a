package rediscache

import (
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

const (
	tolerance = 3               // failures in a row before the breaker opens
	pause     = 1 * time.Second // before it lets one call try again
)

// breaker prevents that each call waits for the timeout of a Redis that does not answer.
type breaker struct {
	circuitbreaker.CircuitBreaker[any]
}

func newBreaker() breaker {
	return breaker{
		circuitbreaker.NewBuilder[any]().WithFailureThreshold(tolerance).WithSuccessThreshold(1).WithDelay(pause).Build(),
	}
}

// abandoned reports a call that ended without a result about Redis. If it was the one that the breaker had let through, the
// next call may try at once.
func (b breaker) abandoned() {
	if b.IsHalfOpen() { // entering the state again releases the permit of the call
		b.Open()
		b.HalfOpen()
	}
}
