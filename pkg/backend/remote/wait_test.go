package remote_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/remote"
	"github.com/agentbus/agentbus/pkg/hubapi"
)

// closedHub cannot answer until a time.
type closedHub struct{ until time.Time }

func (h closedHub) answer() error {
	if time.Now().Before(h.until) {
		return fmt.Errorf("%w: %w", hubapi.ErrSilent, apierr.New(apierr.Unavailable, "the hub cannot reach its database; try again"))
	}
	return apierr.New(apierr.AgentError, "the hub has answered")
}

func (h closedHub) AssignTask(context.Context, hubapi.Assignment) (hubapi.Task, error) {
	return hubapi.Task{}, h.answer()
}

func (h closedHub) AnswerTask(context.Context, hubapi.Answer) (hubapi.Task, error) {
	return hubapi.Task{}, h.answer()
}

func (h closedHub) CancelTask(context.Context, hubapi.TaskRef) (hubapi.Cancelled, error) {
	return hubapi.Cancelled{}, h.answer()
}

func (h closedHub) Connect(context.Context, hubapi.AgentRef) (hubapi.Connection, error) {
	return hubapi.Connection{}, h.answer()
}

// A request waits for a hub that cannot answer, before its task and within it, for as long as it may take.
func TestARequestWaitsForTheHub(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]backend.State{"before its task": {}, "within its task": {ID: "task_9@4@req_1#s1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const outage = 10 * time.Minute
				begun := time.Now()
				b := remote.New(remote.Options{Hub: closedHub{begun.Add(outage)}, Tenant: "acme", Ends: func(error) bool { return false }})
				send := func(within time.Duration) error {
					ctx, cancel := context.WithTimeout(t.Context(), within)
					defer cancel()
					s, err := b.Start(ctx, backend.Start{State: state, RequestID: "req_1", AgentID: "home-pc-01"})
					if err != nil {
						t.Fatal(err)
					}
					_, err = s.Send(ctx, turn("build it"), func(backend.Chunk) error { return nil })
					return err
				}
				if err := send(time.Minute); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("with a minute: got %v, want it to wait until the minute is over", err)
				}
				if err := send(time.Hour); apierr.CodeOf(err) != apierr.AgentError || time.Since(begun) < outage {
					t.Errorf("with an hour: got %v after %v, want what the hub answers after %v", err, time.Since(begun), outage)
				}
			})
		})
	}
}
