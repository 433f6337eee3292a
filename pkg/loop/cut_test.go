package loop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// TestARequestIsCutNoLongerThanItsTime stops runner after runner, each in the midst of a turn that takes longer than any
// of them lives. A hand-over is not a crash and is not counted, so the time of the request must end it.
func TestARequestIsCutNoLongerThanItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lives = 29 * time.Second
		stopping := errors.New("the runner is shutting down")
		th := newThread(t)
		th.backend = backendFunc(func(ctx context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
			if err := emit(backend.TextDelta("as I was saying")); err != nil {
				return backend.Outcome{}, err
			}
			<-ctx.Done()
			return backend.Outcome{}, ctx.Err()
		})
		th.log = &memoryLog{request: 1}
		th.put(event.Claim{Epoch: 1})
		th.put(event.Input{Messages: []event.InputMessage{event.UserText("all of it")}})
		began, runners := time.Now(), 1
		for ; ; runners++ {
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := time.AfterFunc(lives, func() { cancel(stopping) })
			err := th.resume(ctx)
			stop.Stop()
			if err == nil {
				break
			}
			if !errors.Is(err, stopping) {
				t.Fatal(err)
			}
			th.put(event.Claim{Epoch: th.epoch, Released: true})
			th.takeover(nil, len(th.log.events))
		}
		failed := last[event.Error](t, th.log.events)
		if failed.Code != apierr.StreamTimeout || !failed.Retryable {
			t.Errorf("got %+v", failed)
		}
		if took, most := time.Since(began), int(th.agent.Time/lives)+1; took > th.agent.Time+time.Second || runners > most {
			t.Errorf("it took %v and %d runners, want at most %v and %d", took, runners, th.agent.Time, most)
		}
		if open := unstopped(th.log.events); len(open) > 0 {
			t.Errorf("blocks %v have no stop", open)
		}
	})
}
