package protocol

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// AwaitOptions bound [Exchange.Await].
type AwaitOptions struct {
	Timeout  time.Duration // 0 = as long as a stream may last
	MaxBytes int           // of the collected events; 0 = 4 MiB
}

const maxAwaited = 4 << 20

// Outcome is a request that has ended, for a response that is one value.
type Outcome struct {
	Input     event.Input
	Metadata  event.Metadata
	StartedAt time.Time // of Metadata

	// Blocks are the stops of the blocks that count, in their order: [event.Text], [event.Thinking], [event.ToolCall],
	// [event.ToolResult] and [event.FinalAnswer].
	Blocks  []event.Body
	Actions []event.Continuation // that the client must do, if End has event.FinishActionRequired
	End     event.Body           // [event.Done], [event.Error] or [event.Aborted]
}

// Await waits for the end of the request whose log a response of [Exchange.Open] or [Exchange.Resume] reads from its first
// event, and returns what it produced. The route needs StreamLimit and Untimed. The error is apierr.StreamTimeout after the
// timeout, and apierr.MessageTooLarge over MaxBytes: the request continues, and its stream has the rest. If the client
// disconnects first, the agent's onDisconnect applies.
func (x *Exchange) Await(response stream.Response, o AwaitOptions) (Outcome, error) {
	original := x.call.Request
	if o.Timeout > 0 {
		ctx, cancel := context.WithTimeout(original.Context(), o.Timeout)
		defer cancel()
		x.call.Request = original.WithContext(ctx)
		defer func() { x.call.Request = original }()
	}
	c := collector{limit: o.MaxBytes}
	if c.limit <= 0 {
		c.limit = maxAwaited
	}
	ended := response.Ended
	response.Ended = func(err error) { // the timeout of the response is not a disconnect
		if ended != nil && (original.Context().Err() != nil || !errors.Is(err, stream.ErrDisconnected)) {
			ended(err)
		}
	}
	err := x.Collect(response, c.add)
	if err != nil && original.Context().Err() == nil && errors.Is(x.Context().Err(), context.DeadlineExceeded) {
		err = apierr.Wrap(err, apierr.StreamTimeout, "the request has not ended within %v; it continues: read its stream to follow it", o.Timeout)
	}
	if err == nil && c.outcome.End == nil {
		err = errors.New("the log ended without a terminal event")
	}
	return c.outcome, err
}

// collector makes an [Outcome] of a log.
type collector struct {
	outcome Outcome
	limit   int // bytes that may still be collected
}

// add collects the events of a frame that belong to the outcome. Only these are decoded.
func (c *collector) add(f event.Frame) error {
	for line := range f.Each() {
		switch line.Name {
		case event.NameInput, event.NameMetadata, event.NameText, event.NameThinking, event.NameToolCall, event.NameToolResult,
			event.NameFinalAnswer, event.NameContinuation, event.NameDone, event.NameError, event.NameAborted:
		default:
			continue
		}
		e, err := event.Decode(line.JSON)
		if err != nil {
			return fmt.Errorf("event %d: %w", line.N, err)
		}
		if line.Name == event.NameMetadata {
			c.outcome.StartedAt = e.Time
		}
		if !c.take(e.Body) {
			continue
		}
		if c.limit -= len(line.JSON); c.limit < 0 {
			return apierr.New(apierr.MessageTooLarge, "the response is too large for one value; the request continues: read its stream")
		}
	}
	return nil
}

// take reports whether an event belongs to the outcome, and keeps it.
func (c *collector) take(body event.Body) bool {
	o := &c.outcome
	switch b := body.(type) {
	case event.Input:
		if b.SteerID != "" {
			return false
		}
		o.Input = b
	case event.Metadata:
		o.Metadata = b
	case event.Continuation:
		o.Actions = append(o.Actions, b)
	case event.Done, event.Error, event.Aborted:
		o.End = b
	case event.Text:
		return c.block(b.Block, b)
	case event.Thinking:
		return c.block(b.Block, b)
	case event.ToolCall:
		return c.block(b.Block, b)
	case event.ToolResult:
		return c.block(b.Block, b)
	case event.FinalAnswer:
		return c.block(b.Block, b)
	default:
		return false
	}
	return true
}

// block keeps the stop of a block that counts.
func (c *collector) block(at event.Block, body event.Body) bool {
	if at.Stage != event.StageStop || at.Discarded {
		return false
	}
	c.outcome.Blocks = append(c.outcome.Blocks, body)
	return true
}
