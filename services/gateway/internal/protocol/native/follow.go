package native

import (
	"context"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// encoding returns an encoder for a request, or thread, of an agent.
type encoding func(agentID string, o codec.Options) (codec.Encoder, error)

// opened is the log of a request, or the logs of a thread, after the cursor of a client.
type opened struct {
	frames stream.Frames // nil = the client has received the terminal event
	enc    codec.Encoder
	start  string // the cursor of the start of a thread's frames
	reset  bool   // the cursor could not be resumed: the frames start at the beginning
}

// openLog opens the log of a request after a cursor, "" for its first event.
func (s *Server) openLog(ctx context.Context, r authz.Request, cursor string, encode encoding) (opened, error) {
	var at stream.Position
	if cursor != "" {
		var err error
		if at, err = s.Logs.Resume(ctx, r, cursor); err != nil {
			return opened{}, err
		}
		r.Known.Newest = at.Newest
	}
	enc, err := encode(r.AgentID, codec.Options{From: at.From})
	if err != nil || at.Ended {
		return opened{enc: enc, reset: at.Reset}, err
	}
	frames, err := s.Logs.Open(ctx, r, enc.Start())
	if err != nil {
		return opened{}, err
	}
	return opened{frames: frames, enc: enc, reset: at.Reset}, nil
}

// openLogs opens a thread after a cursor, "" for the request that runs or else the next one. It always includes input events,
// which other clients of the thread have sent.
func (s *Server) openLogs(ctx context.Context, tenant string, t bus.ThreadRecord, cursor string, encode encoding) (opened, error) {
	if cursor == "" { // the newest request may wait for one that runs
		var err error
		if t, err = s.Acceptor.Running(ctx, tenant, t); err != nil {
			return opened{}, authz.Unavailable(err)
		}
	}
	frames, reset, err := s.Logs.OpenThread(ctx, tenant, t, cursor)
	if err != nil {
		return opened{}, err
	}
	enc, err := encode(t.AgentID, codec.Options{
		Include: []string{string(event.NameInput)}, Cursor: frames.AppendCursor,
		ToolOutput: func() bool { return s.ShowsToolOutput(frames.AgentID()) },
	})
	if err != nil {
		frames.Close()
		return opened{}, err
	}
	return opened{frames, enc, frames.Start(), reset}, nil
}

// including adds to o what a client includes of a request, or thread, of an agent.
func (s *Server) including(p auth.Principal, agentID string, words []string, o codec.Options) (codec.Options, error) {
	included, err := s.include(p, agentID, words)
	if err != nil {
		return o, err
	}
	o.Include = append(o.Include, included...)
	if o.ToolOutput == nil {
		o.ToolOutput = func() bool { return true } // include has checked the agent
	}
	return o, nil
}
