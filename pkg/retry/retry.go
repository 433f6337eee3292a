// Package retry repeats operations that may succeed later, such as those on a dependency that is restarting.
//
// It fixes the contract that the services rely on; github.com/failsafe-go/failsafe-go executes it.
package retry

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// Policy decides when a failed operation is repeated. A Policy is a value: its methods may be called concurrently.
type Policy struct {
	First   time.Duration // delay after the first failure; each delay is twice the one before
	Longest time.Duration // longest delay; 0 = First, so that all delays are equal

	// Final reports whether an error is one that no repetition changes; nil = no error is.
	Final func(error) bool
	// Failed is called before each delay; nil = no call.
	Failed func(err error, delay time.Duration)
}

// Do calls op, at least once, until it succeeds, its error is final, or ctx is done. It returns op's last error. All calls
// are made in the caller's goroutine.
func (p Policy) Do(ctx context.Context, op func(context.Context) error) error {
	if ctx.Err() != nil { // failsafe would not call op
		return op(ctx)
	}
	var last error
	_ = failsafe.With(p.build()).WithContext(ctx).Run(func() error { // last has the error also if ctx ended the delay
		last = op(ctx)
		return last
	})
	return last
}

func (p Policy) build() retrypolicy.RetryPolicy[any] {
	b := retrypolicy.NewBuilder[any]().WithMaxRetries(-1)
	if p.Longest > p.First {
		b.WithBackoff(p.First, p.Longest)
	} else {
		b.WithDelay(p.First)
	}
	if p.Final != nil {
		b.AbortIf(func(_ any, err error) bool { return err != nil && p.Final(err) })
	}
	if p.Failed != nil {
		b.OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[any]) { p.Failed(e.LastError(), e.Delay) })
	}
	return b.Build()
}
