package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/limit"
)

// behaviour is a tool that does what a test says.
type behaviour func(ctx context.Context) (tool.Result, error)

func (behaviour) Spec() tool.Spec { return tool.Spec{Name: "behaviour"} }

func (b behaviour) Call(ctx context.Context, _ tool.Call) (tool.Result, error) { return b(ctx) }

func sleeps(d time.Duration) behaviour {
	return func(context.Context) (tool.Result, error) { // deaf to its context
		time.Sleep(d)
		return tool.Result{Content: "slept"}, nil
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	errOwn := errors.New("own error")
	errStop := errors.New("stopped")
	obeys := behaviour(func(ctx context.Context) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	})
	tests := []struct {
		name    string
		tool    behaviour
		stop    time.Duration // when the caller cancels; 0 = never
		want    error
		content string
		takes   time.Duration
	}{
		{"gives the result", sleeps(time.Second), 0, nil, "slept", time.Second},
		{"gives the tool's error", func(context.Context) (tool.Result, error) { return tool.Result{}, errOwn }, 0, errOwn, "", 0},
		{"ends a call that takes too long", obeys, 0, limit.ErrTime, "", 10 * time.Second},
		{"abandons a call that does not end", sleeps(time.Minute), 0, limit.ErrTime, "", 11 * time.Second},
		{"takes a success that comes just after the end", sleeps(10500 * time.Millisecond), 0, nil, "slept", 10500 * time.Millisecond},
		{"returns why the caller stopped it", obeys, 3 * time.Second, errStop, "", 3 * time.Second},
		{"abandons a call that the caller stopped", sleeps(time.Minute), 3 * time.Second, errStop, "", 4 * time.Second},
		{"keeps the tool's own error after the end", func(ctx context.Context) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, errOwn
		}, 0, errOwn, "", 10 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if test.stop > 0 {
					defer time.AfterFunc(test.stop, func() { cancel(errStop) }).Stop()
				}
				begun := time.Now()
				result, err := limit.New(1).Call(ctx, test.tool, tool.Call{}, 10*time.Second)
				if !errors.Is(err, test.want) || result.Content != test.content {
					t.Errorf("got %q, %v, want %q, %v", result.Content, err, test.content, test.want)
				}
				if took := time.Since(begun); took != test.takes {
					t.Errorf("took %v, want %v", took, test.takes)
				}
				time.Sleep(time.Minute) // until the abandoned have returned
			})
		})
	}
}

func TestAPanicIsAnError(t *testing.T) {
	t.Parallel()
	broken := behaviour(func(context.Context) (tool.Result, error) {
		panic("broken")
	})
	_, err := limit.New(1).Call(t.Context(), broken, tool.Call{}, time.Second)
	if p, ok := errors.AsType[*limit.PanicError](err); !ok || len(p.Stack) == 0 {
		t.Errorf("got %v, want a *PanicError with its stack", err)
	}
}

func TestAbandonedCallHoldsSlotUntilReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(1)
		if _, err := l.Call(t.Context(), sleeps(time.Minute), tool.Call{}, time.Second); !errors.Is(err, limit.ErrTime) {
			t.Fatalf("got %v, want ErrTime", err)
		}
		if l.Running() != 1 {
			t.Errorf("%d calls run, want 1", l.Running())
		}
		if _, err := l.Call(t.Context(), sleeps(0), tool.Call{}, time.Second); !errors.Is(err, limit.ErrBusy) {
			t.Errorf("while the place is taken: got %v, want ErrBusy", err)
		}
		time.Sleep(time.Minute)
		if _, err := l.Call(t.Context(), sleeps(0), tool.Call{}, time.Second); err != nil {
			t.Errorf("after the call has returned: %v", err)
		}
	})
}
