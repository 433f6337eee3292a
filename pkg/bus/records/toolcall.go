package records

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// PutToolStarted records that a call is about to take effect. The first write wins; see [Requests.Accept] for the results.
func (b *ToolCalls) PutToolStarted(ctx context.Context, log broker.LogID, s record.ToolStarted) (record.ToolStarted, bool, error) {
	subject, err := b.conn.Subject(broker.KindStarted, log.Tenant, log.RequestID, s.ToolCallID)
	if err != nil {
		return record.ToolStarted{}, false, err
	}
	return broker.PutFirst(ctx, b.conn, b.conn.ResultsStream(), subject, s)
}

// PutToolResult records the end of a call. The first write wins; see [Requests.Accept] for the results.
func (b *ToolCalls) PutToolResult(ctx context.Context, log broker.LogID, r record.ToolResult) (record.ToolResult, bool, error) {
	subject, err := b.conn.Subject(broker.KindResult, log.Tenant, log.RequestID, r.ToolCallID)
	if err != nil {
		return record.ToolResult{}, false, err
	}
	return broker.PutFirst(ctx, b.conn, b.conn.ResultsStream(), subject, r)
}

// ToolStarted returns the record that a call has started, or ErrNotFound.
func (b *ToolCalls) ToolStarted(ctx context.Context, log broker.LogID, toolCallID string) (record.ToolStarted, error) {
	subject, err := b.conn.Subject(broker.KindStarted, log.Tenant, log.RequestID, toolCallID)
	if err != nil {
		return record.ToolStarted{}, err
	}
	s, _, err := broker.Get[record.ToolStarted](ctx, b.conn, b.conn.ResultsStream(), subject)
	return s, err
}

// ToolResult returns the result of a call, or ErrNotFound.
func (b *ToolCalls) ToolResult(ctx context.Context, log broker.LogID, toolCallID string) (record.ToolResult, error) {
	subject, err := b.conn.Subject(broker.KindResult, log.Tenant, log.RequestID, toolCallID)
	if err != nil {
		return record.ToolResult{}, err
	}
	r, _, err := broker.Get[record.ToolResult](ctx, b.conn, b.conn.ResultsStream(), subject)
	return r, err
}

// AwaitToolResult waits for the result of a call until ctx is done. It calls progress with the output and the events of the tool,
// in order and from this goroutine. Some may be missing, because they are not stored.
func (b *ToolCalls) AwaitToolResult(
	ctx context.Context, log broker.LogID, toolCallID string, progress func(record.ToolProgress),
) (record.ToolResult, error) {
	result, err := b.conn.Subject(broker.KindResult, log.Tenant, log.RequestID, toolCallID)
	if err != nil {
		return record.ToolResult{}, err
	}
	output, err := b.conn.Subject(broker.KindProgress, log.Tenant, log.RequestID, toolCallID)
	if err != nil {
		return record.ToolResult{}, err
	}
	return broker.Await[record.ToolResult](ctx, b.conn, b.conn.ResultsStream(), result, output, func(msg *nats.Msg) {
		var p record.ToolProgress
		if json.Unmarshal(msg.Data, &p) == nil {
			progress(p)
		}
	})
}

// Progress publishes output of a running tool to the caller that waits for its result. Output is not stored, and may be
// lost.
func (b *ToolCalls) Progress(ctx context.Context, log broker.LogID, p record.ToolProgress) error {
	subject, err := b.conn.Subject(broker.KindProgress, log.Tenant, log.RequestID, p.ToolCallID)
	if err != nil {
		return err
	}
	msg, err := broker.NewMessage(ctx, subject, p)
	if err != nil {
		return err
	}
	if err := b.conn.NATS.PublishMsg(msg); err != nil {
		return fmt.Errorf("send %s: %w", subject, err)
	}
	return nil
}
