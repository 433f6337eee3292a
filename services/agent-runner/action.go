package agentrunner

import (
	"context"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/pkg/transcript"
)

// actions caches the actions that wait for a client, where the gateway looks first.
type actions struct{ claim *claim }

// Put implements loop.Actions.
func (a actions) Put(ctx context.Context, waiting []event.Continuation) {
	c := a.claim
	records := make([]rediscache.Action, len(waiting))
	for i, w := range waiting {
		records[i] = rediscache.Action{
			Tenant: c.log.Tenant, ActionID: w.ActionID, ThreadID: c.accepted.ThreadID, RequestID: c.log.RequestID,
			Kind: w.Kind, Payload: w.Payload, ExpiresAt: w.ExpiresAt,
		}
	}
	if err := c.runner.deps.Actions.PutActions(ctx, records...); err != nil {
		c.runner.deps.Log.WarnContext(ctx, "could not cache actions; the log has them", telemetry.LogRequest, c.log.RequestID, "error", err)
	}
}

// forget drops the actions for which this request has results, and all waiting ones if the request has a new message.
func (c *claim) forget(ctx context.Context, waiting []transcript.Action) {
	var ids []string
	for _, result := range c.accepted.Request.Context.ActionResults {
		ids = append(ids, result.ActionID)
	}
	if len(c.accepted.Request.Messages) > 0 {
		for _, a := range waiting {
			ids = append(ids, a.ActionID)
		}
	}
	if len(ids) == 0 {
		return
	}
	if err := c.runner.deps.Actions.DropActions(ctx, c.log.Tenant, ids...); err != nil {
		c.runner.deps.Log.WarnContext(ctx, "could not drop cached actions; the log decides", telemetry.LogRequest, c.log.RequestID, "error", err)
	}
}
