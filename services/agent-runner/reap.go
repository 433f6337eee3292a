package agentrunner

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/agent-runner/internal/reaper"
)

// requests implements the reaper's operations on one request.
type requests struct{ runner *Runner }

var _ reaper.Requests = requests{}

// Conclude implements reaper.Requests.
func (q requests) Conclude(ctx context.Context, a record.Accepted, cause error) error {
	err := q.runner.claim(ctx, a, 0, func(ctx context.Context, c *claim) error {
		request := c.request()
		request.State.Fold(c.events...)
		if err := loop.Refuse(ctx, request, cause); err != nil {
			return err
		}
		return c.abortChildren(ctx, request.State)
	})
	if err != nil && !errors.Is(err, bus.ErrEnded) {
		return err
	}
	if _, err = q.runner.queue().Next(ctx, a.Tenant, a.ThreadID, -1); err != nil {
		return err
	}
	return q.runner.leaveTask(ctx, a)
}

// Time implements reaper.Requests.
func (q requests) Time(agentID string) time.Duration {
	if agent, ok := q.runner.agents[agentID]; ok {
		return agent.Time
	}
	if q.runner.remotes.hub != nil {
		return remoteTime
	}
	return defaultTime
}
