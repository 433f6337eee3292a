package admission

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

func TestNoNewRequestsWhileTheStreamsAreNearlyFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type step struct {
			what    string
			share   float64
			away    error
			refused bool
		}
		var r backpressure
		var now atomic.Pointer[step]
		now.Store(&step{})
		fullness := func(context.Context) (float64, error) { return now.Load().share, now.Load().away }
		go r.watch(t.Context(), fullness, slog.New(slog.DiscardHandler))
		for _, step := range []step{
			{"empty", 0, nil, false},
			{"filling", .79, nil, false},
			{"nearly full", .8, nil, true},
			{"without an answer the last value counts", 0, errors.New("no answer"), true},
			{"room again", .5, nil, false},
			{"no answer again", 1, errors.New("no answer"), false},
		} {
			now.Store(&step)
			time.Sleep(checkInterval)
			synctest.Wait()
			err := r.check()
			if refused := err != nil; refused != step.refused {
				t.Errorf("%s: got %v", step.what, err)
			}
			if f := apierr.From(err); err != nil && (f.Code != apierr.Unavailable || f.RetryAfter == 0 || !f.Retryable) {
				t.Errorf("%s: got %+v, want unavailable, with a time to come back", step.what, f)
			}
		}
	})
}
