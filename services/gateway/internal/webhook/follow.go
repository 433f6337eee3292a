package webhook

import (
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/telemetry"
)

// maxWaiting is how many deliveries of one webhook may wait. A receiver that accepts none loses the later ones.
const maxWaiting = 1000

// ended queues the deliveries that a request's end requires.
func (n *Notifier) ended(ctx context.Context, log record.LogID) error {
	a, err := n.Bus.Accepted(ctx, log)
	if errors.Is(err, bus.ErrNotFound) {
		return nil // its records have expired
	}
	if err != nil {
		return err
	}
	if err := n.queueReceivers(ctx, a); err != nil {
		return err
	}
	pushes, _, err := n.Bus.TaskPushes(ctx, log.Tenant, a.ThreadID)
	if err != nil {
		return err
	}
	for _, p := range pushes.Configs {
		if err := n.Pushes.Queue(ctx, p, a); err != nil {
			return err
		}
	}
	return nil
}

// Queue queues the notification of a receiver about the end of a request on the thread of its task. Queued twice, it is
// delivered under one id.
func (p *Pushes) Queue(ctx context.Context, push bus.TaskPush, a record.Accepted) error {
	d := record.Delivery{
		ID: id.Derive("msg", a.Tenant, a.RequestID, push.TaskID, push.ID), Tenant: a.Tenant, WebhookID: webhookID(a.Tenant, push),
		RequestID: a.RequestID, ThreadID: a.ThreadID, TaskID: push.TaskID, At: p.bus.Now().UTC(),
	}
	return p.put(ctx, d)
}

// put queues a delivery, unless too many wait for its receiver.
func (p *Pushes) put(ctx context.Context, d record.Delivery) error {
	waiting, err := p.bus.WaitingDeliveries(ctx, d.Tenant, d.WebhookID)
	if err != nil {
		return err
	}
	if waiting >= maxWaiting {
		p.log.ErrorContext(ctx, "a delivery was dropped: too many wait for the receiver", "webhook", d.WebhookID,
			telemetry.LogTenant, d.Tenant, telemetry.LogRequest, d.RequestID)
		return nil
	}
	return p.bus.PutDelivery(ctx, d)
}

// webhookID is the id under which the deliveries of a receiver wait.
func webhookID(tenant string, p bus.TaskPush) string { return id.Derive("psh", tenant, p.TaskID, p.ID) }
