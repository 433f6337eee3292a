package durablestreams

import (
	"context"
	"errors"
	"strconv"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/durablestreams/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// end is the end of a stream at one moment.
type end struct {
	at     wire.Offset
	closed bool
}

// finder returns the stream that a path names, if the caller may read it, and its end.
type finder func(*protocol.Exchange) (source, end, error)

// errGone reports an offset that the stream no longer has.
var errGone = errors.New("the stream does not have the offset")

// source is the stream of a request or of a thread.
type source interface {
	// Open returns the frames from an offset that is not after the end, or errGone.
	Open(ctx context.Context, from wire.Offset) (stream.Frames, error)
	// Start is the offset of the first event that is left.
	Start(ctx context.Context) (wire.Offset, error)
	// AgentID is the agent of the request, or of the thread's newest one.
	AgentID() string
	// Options are those of the encoder of the frames that Open has returned.
	Options(from wire.Offset) codec.Options
	// After returns the offset after the last of these frames.
	After(last event.Frame) wire.Offset
}

// requestStream is the stream of a request.
type requestStream struct {
	server  *Server
	request authz.Request
	start   wire.Offset
}

// findRequest finds the stream of the request in the path.
func (s *Server) findRequest(x *protocol.Exchange) (source, end, error) {
	ctx := x.Context()
	r, err := s.Guard.Request(ctx, x.Principal(), x.Param("requestId"))
	x.Audit(r.ThreadID, x.Param("requestId"), err)
	if err != nil {
		return nil, end{}, err
	}
	x.SetHeader(protocol.HeaderRequestID, r.RequestID)
	x.SetThread(r.ThreadID, false)
	e, err := s.endOfRequest(ctx, &r)
	return &requestStream{s, r, wire.Offset{Incarnation: e.at.Incarnation}}, e, err
}

// endOfRequest finds the end of a log, and adds it to the resume hint of the request.
func (s *Server) endOfRequest(ctx context.Context, r *authz.Request) (end, error) {
	if r.Archived {
		return s.endOfArchived(ctx, r)
	}
	last, err := s.Bus.Last(ctx, r.Log())
	if errors.Is(err, bus.ErrNotFound) {
		return end{at: wire.Offset{Incarnation: s.Bus.Incarnation()}}, nil
	}
	if err != nil {
		return end{}, authz.Unavailable(err)
	}
	last.Lines = nil // only its position is needed: a waiting reader must not hold a frame outside any budget
	r.Known.Newest = last
	return end{wire.Offset{Incarnation: last.Incarnation, N: last.Next()}, last.Terminal()}, nil
}

// endOfArchived finds the end of a log that only history has, which has ended.
func (s *Server) endOfArchived(ctx context.Context, r *authz.Request) (end, error) {
	ended, err := s.History.Request(ctx, historyapi.RequestRef{Tenant: r.Tenant, RequestID: r.RequestID})
	if err != nil {
		return end{}, err
	}
	last, err := event.Decode(ended.Terminal)
	if err != nil {
		return end{}, apierr.Wrap(err, apierr.Unavailable, "the end of the request's log was lost; try again later")
	}
	incarnation, n, err := event.ParseCursor(string(last.ID))
	if err != nil {
		return end{}, err
	}
	return end{wire.Offset{Incarnation: incarnation, N: n + 1}, true}, nil
}

func (r *requestStream) Open(ctx context.Context, from wire.Offset) (stream.Frames, error) {
	if from.Incarnation != r.start.Incarnation {
		return nil, errGone
	}
	return r.server.Logs.Open(ctx, r.request, from.N)
}

func (r *requestStream) Start(context.Context) (wire.Offset, error) { return r.start, nil }
func (r *requestStream) AgentID() string                            { return r.request.AgentID }

func (r *requestStream) Options(from wire.Offset) codec.Options {
	return codec.Options{From: from.N, ToolOutput: func() bool { return true }} // the agent was checked
}

func (*requestStream) After(f event.Frame) wire.Offset {
	return wire.Offset{Incarnation: f.Incarnation, N: f.Next()}
}

// threadStream is the stream of a thread.
type threadStream struct {
	server *Server
	tenant string
	newest bus.ThreadRecord
	end    wire.Offset
	logs   *stream.Thread // that Open has returned
	last   event.Frame    // of logs, without its lines
}

// findThread finds the stream of the thread in the path.
func (s *Server) findThread(x *protocol.Exchange) (source, end, error) {
	ctx, p := x.Context(), x.Principal()
	t, err := s.Guard.Thread(ctx, p, x.Param("threadId"))
	x.Audit(x.Param("threadId"), "", err)
	if err != nil {
		return nil, end{}, err
	}
	x.SetThread(t.ThreadID, false)
	at, err := s.endOfThread(ctx, p.Tenant, t)
	return &threadStream{server: s, tenant: p.Tenant, newest: t, end: at}, end{at: at}, err
}

// endOfThread finds the end of the logs of a thread: that of the request that runs, or the start of the next one.
func (s *Server) endOfThread(ctx context.Context, tenant string, newest bus.ThreadRecord) (wire.Offset, error) {
	at := wire.Offset{Incarnation: s.Bus.Incarnation(), Thread: true, Index: newest.Index + 1}
	if newest.Sequence == 0 { // the bus has no record of a request
		return at, nil
	}
	t, err := s.Acceptor.Running(ctx, tenant, newest)
	if err != nil {
		return at, authz.Unavailable(err)
	}
	at.Index = t.Index
	last, err := s.Bus.Last(ctx, bus.LogID{Tenant: tenant, RequestID: t.RequestID})
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return at, nil
	case err != nil:
		return at, authz.Unavailable(err)
	}
	if at.N = last.Next(); last.Terminal() {
		at.Index, at.N = at.Index+1, 0
	}
	return at, nil
}

func (t *threadStream) Open(ctx context.Context, from wire.Offset) (stream.Frames, error) {
	if from.Incarnation != t.end.Incarnation {
		return nil, errGone
	}
	frames, reset, err := t.server.Logs.OpenThread(ctx, t.tenant, t.newest, cursorOf(from))
	if err == nil && reset {
		frames.Close()
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	t.logs = frames
	return frames, nil
}

// cursorOf returns the cursor of a thread's stream for an offset.
func cursorOf(o wire.Offset) string {
	if o.N == 0 {
		return o.Incarnation + "-" + strconv.Itoa(o.Index) + ".start"
	}
	return o.Incarnation + "-" + strconv.Itoa(o.Index) + "." + strconv.FormatUint(o.N-1, 10)
}

func (t *threadStream) Start(ctx context.Context) (wire.Offset, error) {
	for oldest, err := range t.server.Bus.ThreadRecords(ctx, t.tenant, t.newest.ThreadID, 0) {
		if err != nil {
			return wire.Offset{}, authz.Unavailable(err)
		}
		return wire.Offset{Incarnation: t.end.Incarnation, Thread: true, Index: oldest.Index}, nil
	}
	return t.end, nil
}

func (t *threadStream) AgentID() string { return t.newest.AgentID }

func (t *threadStream) Options(wire.Offset) codec.Options {
	return codec.Options{
		Include: []string{string(event.NameInput)},
		Cursor: func(dst []byte, incarnation string, n uint64) []byte {
			return t.position(incarnation, t.logs.Index(), n+1).Append(dst)
		},
		ToolOutput: func() bool { return t.server.ShowsToolOutput(t.logs.AgentID()) },
	}
}

func (t *threadStream) After(f event.Frame) wire.Offset {
	t.last = f
	t.last.Lines = nil
	return t.position(f.Incarnation, t.logs.Index(), f.Next())
}

// position returns the offset of event n of a request. That after the terminal event is the start of the next request: a position
// has one offset only.
func (t *threadStream) position(incarnation string, index int, n uint64) wire.Offset {
	if t.last.Terminal() && n == t.last.Next() {
		index, n = index+1, 0
	}
	return wire.Offset{Incarnation: incarnation, Thread: true, Index: index, N: n}
}
