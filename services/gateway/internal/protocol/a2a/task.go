package a2a

import (
	"context"
	"errors"
	"io"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

const unknownIndex = -1

// link is a request of a task.
type link struct {
	authz.Request
	index    int    // on its thread
	sequence uint64 // of its thread record; 0 = not known
}

// task is a task as it is now.
type task struct {
	*wire.Fold
	id           string
	last         link
	frames       stream.Frames // what follows in the log of last; nil = it has ended
	supersededBy string        // the request that has ended the task while it waited; "" = none
}

// viewer is who reads a task.
type viewer struct {
	ctx       context.Context //nolint:containedctx // of one reading, which ends with the call
	principal auth.Principal
	agentID   string
	pace      func(stream.Frames) stream.Frames
	audit     func(threadID, requestID string, refused error)
	stateOnly bool // without the output of the task
}

// viewer returns the caller as a reader of tasks.
func (c call) viewer() viewer {
	return viewer{
		ctx: c.Context(), principal: c.Principal(), agentID: c.agentID, audit: c.Audit,
		pace: func(f stream.Frames) stream.Frames { return c.Resume(f).Frames },
	}
}

// close frees the frames.
func (t *task) close() {
	if t.frames != nil {
		t.frames.Close()
	}
}

// find returns the first request of a task of the agent, if the caller may see it. The task of another user does not exist.
func (s *Server) find(v viewer, taskID string) (authz.Request, error) {
	r, err := s.Guard.Request(v.ctx, v.principal, taskID)
	if apierr.CodeOf(err) == apierr.ThreadAccessDenied {
		err = apierr.Wrap(err, apierr.RequestNotFound, "there is no task %.64q", taskID)
	}
	if err == nil && r.AgentID != v.agentID {
		err = apierr.New(apierr.RequestNotFound, "agent %s has no task %.64q", v.agentID, taskID)
	}
	v.audit(r.ThreadID, r.RequestID, err)
	return r, err
}

// open reads a task up to the newest event. The caller closes it.
func (s *Server) open(c call, taskID string) (*task, error) { return s.openFor(c.viewer(), taskID) }

func (s *Server) openFor(v viewer, taskID string) (*task, error) {
	r, err := s.find(v, taskID)
	if err != nil {
		return nil, err
	}
	t := &task{Fold: wire.NewFold(taskID, r.ThreadID), id: taskID, last: link{Request: r, index: unknownIndex}}
	if v.stateOnly {
		t.Forget()
	}
	t.Begin(r.Note, r.At)
	for range maxLinks {
		if err := s.read(v, t); err != nil {
			t.close()
			return nil, err
		}
		if t.State() != wire.StateInputRequired {
			return t, nil
		}
		more, err := s.advance(v, t)
		if err != nil || !more {
			return t, err
		}
	}
	return nil, apierr.New(apierr.MessageTooLarge, "the task has more than %d requests; read its thread", maxLinks)
}

// maxLinks bounds the requests of a task.
const maxLinks = 200

// read folds the log of the last request up to its newest event.
func (s *Server) read(v viewer, t *task) error {
	ctx := v.ctx
	until := uint64(0)
	if !t.last.Archived {
		newest, err := s.Bus.Last(ctx, t.last.Log())
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			return authz.Unavailable(err)
		}
		until = newest.Next()
	}
	opened, err := s.Logs.Open(ctx, t.last.Request, 0)
	if err != nil {
		return err
	}
	t.frames = v.pace(opened)
	for n := uint64(0); n < until || t.last.Archived; {
		f, err := t.frames.Next(ctx, s.Streamer.Heartbeat())
		switch {
		case errors.Is(err, bus.ErrIdle):
			continue
		case errors.Is(err, io.EOF):
			t.frames.Close()
			t.frames = nil
			return nil
		case err != nil:
			return err
		}
		n = f.Next()
		if err := t.add(f); err != nil {
			return err
		}
		if f.Terminal() {
			t.frames.Close()
			t.frames = nil
			return nil
		}
	}
	return nil
}

// add folds a frame.
func (t *task) add(f event.Frame) error {
	events, err := f.Events()
	if err != nil {
		return err
	}
	for _, e := range events {
		t.Add(e)
	}
	return t.CheckSize()
}

// advance changes to the request that continues a task that waits for its client, and reports whether one exists.
func (s *Server) advance(v viewer, t *task) (bool, error) {
	ctx := v.ctx
	next, found, err := s.next(ctx, &t.last)
	if err != nil || !found {
		return false, err
	}
	if !next.continues {
		t.Add(superseded(t.last.RequestID, next.at))
		t.supersededBy = next.requestID
		return false, nil
	}
	r, err := s.Guard.Request(ctx, v.principal, next.requestID)
	t.last = link{Request: r, index: next.index, sequence: next.sequence}
	t.Begin(r.Note, next.at)
	return err == nil, err
}
