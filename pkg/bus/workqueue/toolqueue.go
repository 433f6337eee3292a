package workqueue

import (
	"context"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
)

// CallTool sends a call to the executors of a toolset. While the call waits or runs, and within the duplicate window, a
// second copy is dropped, unless another request asks for the call.
func (b *ToolQueue) CallTool(ctx context.Context, toolset string, c record.ToolCall) error {
	subject, err := b.conn.Subject(broker.KindTool, c.Tenant, toolset, c.RequestID, c.ToolCallID)
	if err != nil {
		return err
	}
	msg, err := broker.NewMessage(ctx, subject, c)
	if err != nil {
		return err
	}
	return b.conn.Send(ctx, b.conn.ToolsStream(), msg, c.Tenant+"/"+c.RequestID+"/"+c.ToolCallID)
}

// ConsumeToolCalls calls handle with calls, at most slots at a time, until ctx is done; then it waits for the handlers. See
// [Handle] for what handle may return.
func (b *ToolQueue) ConsumeToolCalls(ctx context.Context, slots int, handle Handle[record.ToolCall]) error {
	return broker.Work(ctx, b.conn, b.conn.ToolsStream(), broker.ExecutorConsumer, slots, handle.AnyMessage)
}
