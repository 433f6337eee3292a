package toolexecutor

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/query"
)

// Archive has the events that the stream no longer keeps. A query.Client is one.
type Archive interface {
	AllThreadFrames(ctx context.Context, q query.ThreadFramesQuery) iter.Seq2[query.RequestFrames, error]
}

// archived does the same as announced, with history instead of the stream: for an action that was announced by a request
// whose records have expired. That request is the last one of the thread before the request that allowed the action.
func (e *Executor) archived(ctx context.Context, j job, allowed string) (why string, err error) {
	if e.deps.History == nil {
		return gone, nil
	}
	var (
		request   string // the one that is being read
		announced *event.Continuation
	)
	q := query.ThreadFramesQuery{ThreadRef: query.ThreadRef{Tenant: j.Tenant, ThreadID: j.ThreadID}}
	for part, err := range e.deps.History.AllThreadFrames(ctx, q) {
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == fault.ThreadNotFound {
			return gone, nil
		}
		if err != nil {
			return "", fmt.Errorf("ask history: %w", err)
		}
		if part.RequestID == allowed {
			break
		}
		if part.RequestID != request {
			request, announced = part.RequestID, nil
		}
		for _, f := range part.Frames {
			c, err := announcement(f.Event(), j.Approved)
			if err != nil {
				return "", fmt.Errorf("request %s: %w", request, err)
			}
			if c != nil {
				announced = c
			}
		}
	}
	if announced == nil {
		return "nobody was asked for it", nil
	}
	return j.differs(*announced), nil
}

// announcement returns the continuation of an action in a frame, nil when the frame has none.
func announcement(f event.Frame, actionID string) (*event.Continuation, error) {
	for line := range f.Each() {
		if line.Name != event.NameContinuation {
			continue
		}
		e, err := event.Decode(line.JSON)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", line.N, err)
		}
		if c, ok := e.Body.(event.Continuation); ok && c.ActionID == actionID {
			return &c, nil
		}
	}
	return nil, nil //nolint:nilnil // most frames have none
}
