package langgraph

import (
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/langgraph/wire"
	streams "github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// streamEvents streams the events of a thread, of all its runs, until the client disconnects.
func (s *Server) streamEvents(x *protocol.Exchange) error {
	body, err := x.Body()
	if err != nil {
		return err
	}
	f, err := wire.DecodeFilter(body)
	if err != nil {
		return err
	}
	var from *wire.Position
	if f.Since > 0 {
		at := wire.PositionOf(f.Since)
		from = &at
	}
	return s.followThread(x, wire.ThreadCodec{Filter: &f}, func(newest int) string {
		if from == nil {
			from = &wire.Position{Index: newest}
		}
		return streams.CursorBefore(s.Bus.Incarnation(), from.Index, from.N)
	})
}

// joinThread streams the runs of a thread as their own streams, from the newest one on, until the client disconnects.
func (s *Server) joinThread(x *protocol.Exchange) error {
	cursor, err := x.Cursor()
	if err != nil {
		return err
	}
	names := x.QueryList("stream_mode")
	for i, name := range names {
		switch name {
		case "run_modes": // of a stream of threads: the modes of each run
			names = nil
		case "lifecycle", "state_update":
			return apierr.New(apierr.InvalidMessageFormat, "stream_mode %q is not supported; use \"run_modes\", or POST …/stream/events", names[i])
		}
		if names == nil {
			break
		}
	}
	modes, err := wire.ParseModes(names)
	if err != nil {
		return err
	}
	return s.followThread(x, wire.ThreadCodec{Modes: modes}, func(newest int) string {
		switch cursor {
		case "":
			return streams.CursorBefore(s.Bus.Incarnation(), newest, 0)
		case fromStart:
			return streams.FromStart
		}
		return cursor
	})
}

// followThread streams a thread after a cursor, which may depend on the index of the run that runs, or of the newest one.
func (s *Server) followThread(x *protocol.Exchange, c wire.ThreadCodec, cursor func(newest int) string) error {
	done := x.WithTimeout()
	defer done()
	p, threadID := x.Principal(), x.Param("threadId")
	t, err := s.Guard.Thread(x.Context(), p, threadID)
	x.Audit(threadID, "", err)
	if err != nil {
		return err
	}
	running, err := s.Acceptor.Running(x.Context(), p.Tenant, t)
	if err != nil {
		return authz.Unavailable(err)
	}
	after := ""
	if t.Sequence > 0 {
		after = cursor(running.Index)
	}
	frames, reset, err := s.Logs.OpenThread(x.Context(), p.Tenant, t, after)
	if err != nil {
		return err
	}
	c.Index = frames.Index
	c.Earlier = func(requestID string) (wire.Values, error) { return s.earlier(x, threadID, requestID)() }
	enc, err := x.Encoder(c, codec.Options{From: frames.Rewind(), Cursor: frames.AppendCursor})
	if err != nil {
		frames.Close()
		return err
	}
	x.SetThread(threadID, reset)
	response := x.Resume(frames)
	response.Encoder = enc
	done()
	return x.Stream(response)
}
