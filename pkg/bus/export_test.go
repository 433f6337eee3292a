package bus

import (
	"context"

	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/id"
)

// StartLate sends a pointer as if the duplicate window had passed, and tells how many the queue then holds.
func (b *Bus) StartLate(ctx context.Context, a command.Accepted) (held int, err error) {
	subject, err := b.subject(kindRequest, a.Tenant, a.AgentID, a.RequestID)
	if err != nil {
		return 0, err
	}
	msg, err := record(ctx, subject, command.Start{Tenant: a.Tenant, AgentID: a.AgentID, RequestID: a.RequestID})
	if err != nil {
		return 0, err
	}
	if err := b.send(ctx, b.requestsStream(), msg, id.New("late")); err != nil {
		return 0, err
	}
	messages, _, err := b.page(ctx, b.requestsStream(), subject, 0, fullPage())
	return len(messages), err
}
