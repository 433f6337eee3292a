package retry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/retry"
)

var (
	errAway  = errors.New("the server is away")
	errFinal = errors.New("the server refuses")
)

func TestDoRepeatsAfterGrowingDelays(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		policy   retry.Policy
		failures int
		want     []time.Duration
	}{
		{"doubles up to the longest", retry.Policy{First: time.Second, Longest: 5 * time.Second}, 5,
			[]time.Duration{1e9, 2e9, 4e9, 5e9, 5e9}},
		{"is constant without a longest", retry.Policy{First: 2 * time.Second}, 3, []time.Duration{2e9, 2e9, 2e9}},
		{"is not needed after a success", retry.Policy{First: time.Second}, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls []time.Time
				var announced, delays []time.Duration
				tt.policy.Failed = func(err error, delay time.Duration) {
					if !errors.Is(err, errAway) {
						t.Errorf("Failed got %v, want %v", err, errAway)
					}
					announced = append(announced, delay)
				}
				err := tt.policy.Do(t.Context(), func(context.Context) error {
					calls = append(calls, time.Now())
					if len(calls) <= tt.failures {
						return errAway
					}
					return nil
				})
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				for i := 1; i < len(calls); i++ {
					delays = append(delays, calls[i].Sub(calls[i-1]))
				}
				if !slices.Equal(delays, tt.want) || !slices.Equal(announced, tt.want) {
					t.Errorf("got delays %v, announced %v, want %v", delays, announced, tt.want)
				}
			})
		})
	}
}

func TestDoEnds(t *testing.T) {
	t.Parallel()
	policy := retry.Policy{First: time.Second, Final: func(err error) bool { return errors.Is(err, errFinal) }}
	cause := errors.New("the process shuts down")
	tests := []struct {
		name  string
		after time.Duration // when the context ends
		op    func(call int) error
		want  error
		calls int
	}{
		{"at a final error", time.Hour, func(call int) error {
			if call == 3 {
				return errFinal
			}
			return errAway
		}, errFinal, 3},
		{"when the context ends during a delay, with the last error", 2500 * time.Millisecond,
			func(int) error { return errAway }, errAway, 3},
		{"after one call when the context has ended", 0, func(int) error { return errAway }, errAway, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if tt.after == 0 {
					cancel(cause)
				}
				timer := time.AfterFunc(tt.after, func() { cancel(cause) })
				defer timer.Stop()
				calls, begun := 0, time.Now()
				err := policy.Do(ctx, func(context.Context) error {
					calls++
					return tt.op(calls)
				})
				if !errors.Is(err, tt.want) || calls != tt.calls {
					t.Errorf("got %v after %d calls, want %v after %d", err, calls, tt.want, tt.calls)
				}
				if waited := time.Since(begun); tt.after < time.Hour && waited != tt.after {
					t.Errorf("returned after %v, want %v, when the context ended", waited, tt.after)
				}
			})
		})
	}
}
