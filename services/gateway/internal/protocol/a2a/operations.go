package a2a

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// get returns a task as it is now.
func (s *Server) get(c call, q wire.TaskQuery) error {
	defer c.WithTimeout()()
	t, err := s.open(c, q.ID)
	if err != nil {
		return err
	}
	defer t.close()
	return c.reply(t.Task().Recent(q.HistoryLength))
}

// subscribe streams a task: first its state, then what follows.
func (s *Server) subscribe(c call, taskID string) error {
	response, err := s.openStream(c, taskID)
	if err != nil {
		return err
	}
	return c.Stream(response)
}

func (s *Server) openStream(c call, taskID string) (response stream.Response, err error) {
	defer c.WithTimeout()()
	t, err := s.open(c, taskID)
	if err != nil {
		return response, err
	}
	if t.State().IsTerminal() {
		t.close()
		return response, wire.Unsupported.New("the task has ended; get it instead")
	}
	return s.following(c, t, &taskFrames{server: s, last: t.last, current: t.frames})
}

// following returns the response of a stream that begins with the state of a task, and continues with frames.
func (s *Server) following(c call, t *task, frames stream.Frames) (response stream.Response, err error) {
	state := t.Task()
	response = c.Resume(frames)
	if response.Prelude, err = wire.AppendUpdate(nil, c.rpc, wire.Update{Task: &state}); err == nil {
		response.Encoder, err = c.Encoder(wire.Codec{Call: c.rpc, Task: t.Fold, Begun: true}, codec.Options{})
	}
	if err != nil {
		response.Frames.Close()
	}
	return response, err
}

// cancelTime is how long a cancellation waits for the end of the task.
const cancelTime = 5 * time.Second

// cancel aborts a task. A task that waits for its client is continued by a request that denies its actions and is aborted, so that
// other clients can no longer answer them.
func (s *Server) cancel(c call, taskID string) error {
	if err := mayRun(c.Exchange); err != nil {
		return err
	}
	defer c.WithTimeout()()
	t, err := s.open(c, taskID)
	if err != nil {
		return err
	}
	t.close()
	if t.State().IsTerminal() {
		return wire.NotCancelable.New("the task has ended; there is nothing to cancel")
	}
	last := t.last.Request
	if t.State() == wire.StateInputRequired {
		if last.RequestID, err = s.deny(c, t); err != nil {
			return err
		}
	}
	abort := record.Abort{RequestID: last.RequestID, By: c.Principal().Subject, At: s.Bus.Now().UTC()}
	if err := s.Acceptor.Abort(c.Context(), last.Tenant, abort); err != nil {
		return authz.Unavailable(err)
	}
	if err := s.awaitEnd(c.Context(), last); err != nil {
		return err
	}
	return s.get(c, wire.TaskQuery{ID: taskID})
}

// awaitEnd waits for the end of a request, for a short time.
func (s *Server) awaitEnd(ctx context.Context, r authz.Request) error {
	wait, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	err := s.Acceptor.AwaitEnd(wait, r.Log())
	if err != nil && ctx.Err() == nil && errors.Is(wait.Err(), context.DeadlineExceeded) {
		return nil // the task is still being canceled
	}
	return err
}

// deny accepts a request that denies the actions of a task, and returns its id.
func (s *Server) deny(c call, t *task) (requestID string, err error) {
	r := event.AgentRequest{ThreadID: t.ContextID(), Messages: []event.InputMessage{}}
	for _, a := range t.Waiting() {
		if a.ExpiresAt.IsZero() || s.Bus.Now().Before(a.ExpiresAt) {
			r.Context.ActionResults = append(r.Context.ActionResults, event.ActionResult{ActionID: a.ActionID, Status: event.ActionDenied})
		}
	}
	if len(r.Context.ActionResults) == 0 {
		r.Messages = append(r.Messages, event.UserText("The task is canceled."))
	}
	receipt, err := c.Accept(protocol.Request{
		AgentID: c.agentID, Request: r, Metadata: wire.Note(t.id, ""), Target: t.id, Key: "a2a cancel " + t.last.RequestID,
	})
	return receipt.RequestID, err
}
