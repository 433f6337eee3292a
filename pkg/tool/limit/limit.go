// Package limit enforces the limits of a tool: the time of a call, the number of concurrent calls, and that a tool
// which panics or ignores its cancellation affects no other calls.
package limit

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/agentbus/agentbus/pkg/tool"
)

// Grace is how long a call may continue after its context is done before it is abandoned.
const Grace = time.Second

var (
	// ErrTime says that the call took longer than it may.
	ErrTime = errors.New("the call took too long")
	// ErrBusy says that the call never started: every place is taken.
	ErrBusy = errors.New("no place was free for the call")
)

// PanicError says that the tool panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error has the value only; the stack is for logs.
func (e *PanicError) Error() string { return fmt.Sprintf("the tool panicked: %v", e.Value) }

// Limiter runs calls. It is safe for concurrent use.
type Limiter struct{ places chan struct{} }

// New returns a limiter that lets at most concurrent calls run. A call that was abandoned keeps its place until it
// returns, so tools that hang cannot pile up without end.
func New(concurrent int) *Limiter { return &Limiter{places: make(chan struct{}, concurrent)} }

// Running counts the calls that have not returned, abandoned ones among them.
func (l *Limiter) Running() int { return len(l.places) }

// Call runs one call of t for at most d. When the call is cut off, the error is ErrTime, or the cause that ctx was
// cancelled with; a call which succeeds in spite of that within [Grace] has succeeded. ErrBusy means that it never ran,
// a *PanicError that it broke down. After Grace, Call returns though the tool has not.
func (l *Limiter) Call(ctx context.Context, t tool.Tool, call tool.Call, d time.Duration) (tool.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, ErrTime)
	defer cancel()
	if err := l.take(ctx); err != nil {
		return tool.Result{}, err
	}
	returned := make(chan outcome, 1)
	go func() { // ends with the tool; its place says that it has not
		defer func() { <-l.places }()
		returned <- guarded(ctx, t, call)
	}()
	select {
	case o := <-returned:
		return o.judge(ctx)
	case <-ctx.Done():
	}
	late := time.NewTimer(Grace)
	defer late.Stop()
	select {
	case o := <-returned:
		return o.judge(ctx)
	case <-late.C:
		return tool.Result{}, context.Cause(ctx)
	}
}

// take waits for a place. A free one is taken even when ctx is done: the call then ends for that reason, not for want of
// a place.
func (l *Limiter) take(ctx context.Context) error {
	select {
	case l.places <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errors.Join(ErrBusy, context.Cause(ctx))
	}
}

type outcome struct {
	result tool.Result
	err    error
}

// guarded turns a panic of the tool into an error.
func guarded(ctx context.Context, t tool.Tool, call tool.Call) (o outcome) {
	defer func() {
		if value := recover(); value != nil {
			o = outcome{err: &PanicError{Value: value, Stack: debug.Stack()}}
		}
	}()
	result, err := t.Call(ctx, call)
	return outcome{result, err}
}

// judge gives the reason for an error that only says that the context was done.
func (o outcome) judge(ctx context.Context) (tool.Result, error) {
	if o.err != nil && ctx.Err() != nil && (errors.Is(o.err, context.Canceled) || errors.Is(o.err, context.DeadlineExceeded)) {
		return o.result, context.Cause(ctx)
	}
	return o.result, o.err
}
