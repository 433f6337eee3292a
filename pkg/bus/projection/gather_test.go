package projection

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestGather(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		first int
		each  int           // messages at every look
		hurry time.Duration // 0 = not in a hurry
		fails bool          // every look
		want  int
		took  time.Duration
	}{
		{"nothing more comes", 1, 0, 0, false, 1, gatherTime},
		{"what comes is added", 1, 20, 0, false, 481, gatherTime},
		{"a large batch is not kept waiting", 800, 20, 0, false, 800, 0},
		{"a batch that has become large is not either", 1, 500, 0, false, 1001, 20 * time.Millisecond},
		{"one is in a hurry", 1, 20, 25 * time.Millisecond, false, 41, 25 * time.Millisecond},
		{"the broker does not answer", 1, 0, 0, true, 1, 10 * time.Millisecond},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			hurry := make(chan struct{}, 1)
			if tt.hurry > 0 {
				time.AfterFunc(tt.hurry, func() { hurry <- struct{}{} })
			}
			begun := time.Now()
			got := gather(t.Context(), make([]int, tt.first), hurry, func() ([]int, error) {
				if tt.fails {
					return nil, errors.New("no answer")
				}
				return make([]int, tt.each), nil
			})
			if len(got) < tt.want || len(got) > tt.want+tt.each { // at the end both timers fire
				t.Errorf("%s: got %d messages, want %d", tt.name, len(got), tt.want)
			}
			if took := time.Since(begun); took != tt.took {
				t.Errorf("%s: took %v, want %v", tt.name, took, tt.took)
			}
		})
	}
}

func TestGatherEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		begun := time.Now()
		got := gather(ctx, make([]int, 1), nil, func() ([]int, error) { return nil, nil })
		if took := time.Since(begun); took != time.Millisecond || len(got) != 1 {
			t.Errorf("got %d messages after %v", len(got), took)
		}
	})
}
