package workqueue

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/nats-io/nats.go/jetstream"
)

// DeliveryQueue is the queue of deliveries to webhooks. It is safe for concurrent use.
type DeliveryQueue struct {
	conn *broker.Conn
}

// NewDeliveryQueue returns the queue that a connection reads and writes.
func NewDeliveryQueue(conn *broker.Conn) *DeliveryQueue { return &DeliveryQueue{conn: conn} }

// PutDelivery puts a delivery into the queue. While it waits there, and within the duplicate window, a second copy is dropped.
func (b *DeliveryQueue) PutDelivery(ctx context.Context, d record.Delivery) error {
	subject, err := b.conn.Subject(broker.KindDelivery, d.Tenant, d.WebhookID, d.ID)
	if err != nil {
		return err
	}
	msg, err := broker.NewMessage(ctx, subject, d)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, broker.AnswerWait)
	defer cancel()
	return b.conn.Send(ctx, b.conn.DeliveriesStream(), msg, d.Tenant+"/"+d.WebhookID+"/"+d.ID)
}

// WaitingDeliveries counts the deliveries of a webhook that its receiver has not accepted.
func (b *DeliveryQueue) WaitingDeliveries(ctx context.Context, tenant, webhookID string) (int, error) {
	subject, err := b.conn.Subject(broker.KindDelivery, tenant, webhookID)
	if err != nil {
		return 0, err
	}
	return b.conn.Count(ctx, b.conn.DeliveriesStream(), subject+".>")
}

// ConsumeDeliveries calls handle with deliveries, at most slots at a time, until ctx is done; then it waits for the handlers.
// attempt counts from 1 how often the delivery was given to a handler. See [Handle] for what handle may return.
func (b *DeliveryQueue) ConsumeDeliveries(
	ctx context.Context, slots int, handle func(ctx context.Context, d record.Delivery, attempt int) error,
) error {
	counted := func(ctx context.Context, d record.Delivery, msg jetstream.Msg) error {
		about, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("read the metadata of delivery %s: %w", d.ID, err)
		}
		return handle(ctx, d, int(about.NumDelivered)) //nolint:gosec // it counts attempts
	}
	return broker.Work(ctx, b.conn, b.conn.DeliveriesStream(), broker.DeliveryConsumer, slots, counted)
}
