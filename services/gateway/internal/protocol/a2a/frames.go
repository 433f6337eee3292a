package a2a

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// taskFrames are the frames of a task to its end. While the task waits for its client, the next one is that of the request that
// continues it, whichever client has sent that.
type taskFrames struct {
	server  *Server
	last    link
	current stream.Frames       // of last; nil = it has ended
	records *bus.ThreadFollower // of the thread, while the task waits
	ended   bool
}

var _ stream.Frames = (*taskFrames)(nil)

// Next implements stream.Frames.
func (t *taskFrames) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	for {
		if t.ended {
			return event.Frame{}, io.EOF
		}
		if t.current == nil {
			end, err := t.advance(ctx, wait)
			if err != nil || t.ended {
				return end, err
			}
			continue
		}
		f, err := t.current.Next(ctx, wait)
		if f.Terminal() || errors.Is(err, io.EOF) {
			t.current.Close()
			t.current = nil
			t.ended = !waits(f)
		}
		if !errors.Is(err, io.EOF) {
			return f, err
		}
	}
}

// waits reports whether a request ends with this frame and waits for its client.
func waits(f event.Frame) bool {
	var last []byte
	for line := range f.Each() {
		last = line.JSON
	}
	e, err := event.Decode(last)
	if err != nil {
		return false
	}
	end, ok := e.Body.(event.Done)
	return ok && end.FinishReason == event.FinishActionRequired
}

// advance opens the log of the request that continues the task. If the task ends instead, it returns the last frame.
func (t *taskFrames) advance(ctx context.Context, wait time.Duration) (end event.Frame, err error) {
	if t.records == nil {
		after := max(t.last.sequence, t.last.Known.After)
		if t.records, err = t.server.Bus.FollowThread(ctx, t.last.Tenant, t.last.ThreadID, after); err != nil {
			return end, authz.Unavailable(err)
		}
	}
	r, err := t.records.Next(ctx, wait)
	if err != nil {
		return end, err
	}
	next, found, err := t.server.follows(ctx, &t.last, r)
	switch {
	case err != nil:
		return end, err
	case r.Deleted, found && !next.continues:
		t.ended = true
		return lastFrame(superseded(t.last.RequestID, r.At))
	case !found:
		return end, nil
	}
	t.records.Close()
	t.records = nil
	accepted := record.Accepted{Tenant: t.last.Tenant, ThreadID: t.last.ThreadID, RequestID: next.requestID}
	t.last = link{Request: authz.Request{Accepted: accepted}, index: next.index, sequence: next.sequence}
	t.current, err = t.server.Logs.Open(ctx, t.last.Request, 0)
	return end, err
}

// lastFrame returns a frame of one event, which no log has.
func lastFrame(e event.Event) (event.Frame, error) {
	line, err := event.Encode(e)
	return event.Frame{Names: []event.Name{e.Body.Name()}, Lines: append(line, '\n')}, err
}

// Ready implements stream.Frames.
func (t *taskFrames) Ready() bool { return t.current != nil && t.current.Ready() }

// Close implements stream.Frames.
func (t *taskFrames) Close() {
	if t.current != nil {
		t.current.Close()
	}
	if t.records != nil {
		t.records.Close()
	}
}
