package bus

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// CallTool sends a call to the executors of a toolset. While it waits or runs, and within the duplicate window, a second
// copy is dropped, unless another request asks for the call.
func (b *Bus) CallTool(ctx context.Context, toolset string, c record.ToolCall) error {
	subject, err := b.subject(kindTool, c.Tenant, toolset, c.RequestID, c.ToolCallID)
	if err != nil {
		return err
	}
	msg, err := newMessage(ctx, subject, c)
	if err != nil {
		return err
	}
	return b.send(ctx, b.toolsStream(), msg, c.Tenant+"/"+c.RequestID+"/"+c.ToolCallID)
}

// ToolCalls gives calls to handle, at most slots at a time, until ctx is done; then it waits for the handlers. See
// [Handle] for what handle may return.
func (b *Bus) ToolCalls(ctx context.Context, slots int, handle Handle[record.ToolCall]) error {
	return work(ctx, b, b.toolsStream(), executorConsumer, slots, handle.anyMessage)
}

// PutToolStarted records that a call is about to take effect. First write wins; see [Bus.Accept] for the results.
func (b *Bus) PutToolStarted(ctx context.Context, log LogID, s record.ToolStarted) (record.ToolStarted, bool, error) {
	subject, err := b.subject(kindStarted, log.Tenant, log.RequestID, s.ToolCallID)
	if err != nil {
		return record.ToolStarted{}, false, err
	}
	return put(ctx, b, b.resultsStream(), subject, s)
}

// PutToolResult records the end of a call. First write wins; see [Bus.Accept] for the results.
func (b *Bus) PutToolResult(ctx context.Context, log LogID, r record.ToolResult) (record.ToolResult, bool, error) {
	subject, err := b.subject(kindResult, log.Tenant, log.RequestID, r.ToolCallID)
	if err != nil {
		return record.ToolResult{}, false, err
	}
	return put(ctx, b, b.resultsStream(), subject, r)
}

// ToolStarted returns the record that a call has started, or ErrNotFound.
func (b *Bus) ToolStarted(ctx context.Context, log LogID, toolCallID string) (record.ToolStarted, error) {
	subject, err := b.subject(kindStarted, log.Tenant, log.RequestID, toolCallID)
	if err != nil {
		return record.ToolStarted{}, err
	}
	s, _, err := get[record.ToolStarted](ctx, b, b.resultsStream(), subject)
	return s, err
}

// ToolResult returns the result of a call, or ErrNotFound.
func (b *Bus) ToolResult(ctx context.Context, log LogID, toolCallID string) (record.ToolResult, error) {
	subject, err := b.subject(kindResult, log.Tenant, log.RequestID, toolCallID)
	if err != nil {
		return record.ToolResult{}, err
	}
	r, _, err := get[record.ToolResult](ctx, b, b.resultsStream(), subject)
	return r, err
}

// AwaitToolResult waits for the result of a call until ctx is done. progress gets what the tool prints meanwhile, in
// order and from this goroutine; output may be missing, for nobody keeps it.
func (b *Bus) AwaitToolResult(
	ctx context.Context, log LogID, toolCallID string, progress func(delta string),
) (record.ToolResult, error) {
	result, err := b.subject(kindResult, log.Tenant, log.RequestID, toolCallID)
	if err != nil {
		return record.ToolResult{}, err
	}
	output, err := b.subject(kindProgress, log.Tenant, log.RequestID, toolCallID)
	if err != nil {
		return record.ToolResult{}, err
	}
	return await[record.ToolResult](ctx, b, b.resultsStream(), result, output, func(msg *nats.Msg) {
		var p record.ToolProgress
		if json.Unmarshal(msg.Data, &p) == nil {
			progress(p.Delta)
		}
	})
}

// Progress tells whoever waits for a call what its tool prints. Nobody keeps it, and it may be lost.
func (b *Bus) Progress(ctx context.Context, log LogID, p record.ToolProgress) error {
	subject, err := b.subject(kindProgress, log.Tenant, log.RequestID, p.ToolCallID)
	if err != nil {
		return err
	}
	msg, err := newMessage(ctx, subject, p)
	if err != nil {
		return err
	}
	if err := b.nc.PublishMsg(msg); err != nil {
		return fmt.Errorf("send %s: %w", subject, err)
	}
	return nil
}
