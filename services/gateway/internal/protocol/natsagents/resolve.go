package natsagents

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/natsagents/wire"
)

// errContinued reports that another client has continued the thread.
var errContinued = errors.New("another client has continued the thread")

// resolve asks the client for the answers to the open actions, and continues with the request that brings them. If another
// client is faster, it continues with the request of that client.
func (r *run) resolve(ctx context.Context) error {
	for _, action := range r.open {
		if action.Kind == event.ContinueTool {
			return apierr.New(apierr.RequestFinished, "the agent calls %.64q, a tool of the client, which this protocol does not have; "+
				"answer it by another protocol", action.Payload.Tool)
		}
	}
	asking, stop := context.WithCancelCause(ctx)
	var nextID string
	watched := make(chan struct{})
	go func() { // ends with stop
		defer close(watched)
		if id, err := r.next(asking); err == nil {
			nextID = id
			stop(errContinued)
		}
	}()
	results, err := r.askAll(asking)
	stop(nil)
	<-watched
	if nextID != "" {
		r.now.RequestID = nextID
		return nil
	}
	if err != nil {
		return err
	}
	request := event.AgentRequest{ThreadID: r.now.ThreadID, Context: event.Context{ActionResults: results}}
	timed, cancel := context.WithTimeout(ctx, protocol.Timeout)
	defer cancel()
	receipt, err := r.caller.Accept(timed, "", protocol.Request{AgentID: r.now.AgentID, Request: request, Target: r.now.AgentID})
	if err == nil {
		r.now = receipt
	}
	return err
}

// askAll asks for the answers one after the other.
func (r *run) askAll(ctx context.Context) ([]event.ActionResult, error) {
	var results []event.ActionResult
	for _, action := range r.open {
		result, err := r.ask(ctx, action)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

// attempts is how often a question is asked until the answer is one.
const attempts = 3

// ask asks for the answer to an action, until it expires.
func (r *run) ask(ctx context.Context, action event.Continuation) (event.ActionResult, error) {
	if left := action.ExpiresAt.Sub(r.server.Bus.Now()); !action.ExpiresAt.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(left, time.Millisecond))
		defer cancel()
	}
	for range attempts {
		text, err := r.question(ctx, action)
		if errors.Is(err, context.DeadlineExceeded) {
			return event.ActionResult{}, apierr.New(apierr.InvalidActionID, "the question has expired")
		}
		if err != nil {
			return event.ActionResult{}, err
		}
		if result, ok := wire.Answer(action, text); ok {
			return result, nil
		}
	}
	return event.ActionResult{}, apierr.New(apierr.InvalidMessageFormat, "the approval was not answered by yes or no; it stays open")
}

// question sends a question, and waits for its answer.
func (r *run) question(ctx context.Context, action event.Continuation) (string, error) {
	reply, err := r.prompt.Reply(ctx)
	if err != nil {
		return "", err
	}
	defer reply.Close()
	chunk, err := wire.Query(action, reply.Subject)
	if err == nil {
		err = r.prompt.Send(chunk)
	}
	if err != nil {
		return "", err
	}
	data, err := reply.Next(ctx)
	if err != nil {
		return "", err
	}
	in, err := wire.DecodePrompt(data)
	return in.Text, err
}
