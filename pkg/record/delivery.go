package record

import "time"

// Delivery asks a gateway to notify a webhook: agentbus.delivery.<tenant>.<webhookId>.<deliveryId>, a work queue. Its message
// stays in the queue until the receiver has accepted it.
type Delivery struct {
	ID        string    `json:"deliveryId"` // the same for the same fact, so that a receiver recognises a repeated one
	Tenant    string    `json:"tenant"`
	WebhookID string    `json:"webhookId"`
	RequestID string    `json:"requestId"` // whose end is reported
	ThreadID  string    `json:"threadId"`
	TaskID    string    `json:"taskId,omitempty"` // of A2A; "" = WebhookID names a receiver of the configuration
	At        time.Time `json:"at"`
}
