package agentrunner

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/telemetry"
)

// earlier returns the events of the thread's earlier requests, in order: from history, or from the stream while
// history does not answer.
func (c *claim) earlier(ctx context.Context) ([]event.Event, error) {
	index := c.index
	if index == 0 {
		return nil, nil
	}
	events, err := c.fromHistory(ctx, index)
	if err == nil || ctx.Err() != nil {
		return events, err
	}
	c.runner.deps.Log.WarnContext(ctx, "history does not answer; reading the thread from the stream",
		telemetry.LogRequest, c.log.RequestID, "error", err)
	events, streamErr := c.fromStream(ctx, index)
	if streamErr == nil {
		return events, nil
	}
	why := errors.Join(err, streamErr)
	if isOutage(err) || isOutage(streamErr) {
		return nil, apierr.Wrap(why, apierr.Unavailable, "the earlier messages of the thread cannot be read now")
	}
	// Both have answered, and another attempt would be answered in the same way.
	return nil, apierr.Wrap(why, apierr.AgentError, "the earlier messages of the thread are no longer stored; begin another thread")
}

func (c *claim) fromHistory(ctx context.Context, index int) ([]event.Event, error) {
	answer, err := c.runner.deps.History.Transcript(ctx, historyapi.TranscriptQuery{
		ThreadRef: historyapi.ThreadRef{Tenant: c.log.Tenant, ThreadID: c.accepted.ThreadID}, Before: index,
	})
	if err != nil {
		return nil, err
	}
	if len(answer.Requests) != index {
		return nil, fmt.Errorf("history has %d of the thread's %d earlier requests: %w", len(answer.Requests), index, errPermanent)
	}
	var events []event.Event
	for _, request := range answer.Requests {
		for _, line := range request.Events {
			e, err := event.Decode(line)
			if err != nil {
				return nil, fmt.Errorf("history's events of request %s: %w: %w", request.RequestID, errPermanent, err)
			}
			events = append(events, e)
		}
	}
	return events, nil
}

// fromStream reads the logs of the requests before index. It fails when the stream does not hold them all any more.
func (c *claim) fromStream(ctx context.Context, index int) ([]event.Event, error) {
	requests := make([]string, index)
	for record, err := range c.runner.deps.Bus.ThreadRecords(ctx, c.log.Tenant, c.accepted.ThreadID, 0) {
		if err != nil {
			return nil, err
		}
		if record.Index < index {
			requests[record.Index] = record.RequestID
		}
	}
	var events []event.Event
	for i, request := range requests {
		if request == "" {
			return nil, fmt.Errorf("request %d of thread %s is not in the stream: %w", i, c.accepted.ThreadID, errPermanent)
		}
		some, err := c.logOf(ctx, request)
		if err != nil {
			return nil, err
		}
		events = append(events, some...)
	}
	return events, nil
}

func (c *claim) logOf(ctx context.Context, request string) ([]event.Event, error) {
	var events []event.Event
	for f, err := range c.runner.deps.Bus.Read(ctx, bus.LogID{Tenant: c.log.Tenant, RequestID: request}, 0) {
		if err != nil {
			return nil, fmt.Errorf("log of %s: %w", request, err)
		}
		some, err := f.Events()
		if err != nil {
			return nil, fmt.Errorf("log of %s: %w: %w", request, errPermanent, err)
		}
		events = append(events, some...)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("the log of %s is not in the stream: %w", request, errPermanent)
	}
	return events, nil
}
