package aisdk

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/aisdk/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// getStream streams the message of the request that runs on the chat, from its beginning. The response has no content if no
// request runs, as the client expects; with replay=ended it is then the last message.
func (s *Server) getStream(x *protocol.Exchange) error {
	response, found, err := s.resume(x)
	if err != nil {
		return err
	}
	if !found {
		x.NoContent()
		return nil
	}
	x.SetHeader(wire.VersionHeader, wire.Version)
	return x.Stream(response)
}

func (s *Server) resume(x *protocol.Exchange) (response stream.Response, found bool, err error) {
	agentID, err := agent(x)
	if err != nil {
		return response, false, err
	}
	options, err := s.options(x, agentID)
	if err != nil {
		return response, false, err
	}
	if cursor, err := x.Cursor(); err != nil || cursor != "" {
		return response, false, cmp.Or(err, error(apierr.New(apierr.InvalidMessageFormat,
			"a message is streamed from its beginning; leave out Last-Event-ID and after")))
	}
	defer x.WithTimeout()()
	r, running, err := s.newest(x, agentID)
	x.Audit(x.Param("chatId"), r.RequestID, err)
	if err != nil || r.RequestID == "" || !running && x.Query().Get("replay") != "ended" {
		return response, false, err
	}
	logs, err := s.message(x, r)
	if err != nil {
		return response, false, err
	}
	enc, err := x.Encoder(wire.Codec{
		ClientTools: s.clientTools(agentID), Last: r.RequestID,
		Continued: wire.Continued{ID: cmp.Or(wire.MessageID(r.Note), logs[0].RequestID)},
	}, options)
	if err != nil {
		return response, false, err
	}
	frames, err := s.open(x.Context(), logs)
	if err != nil {
		return response, false, err
	}
	x.SetHeader(protocol.HeaderRequestID, r.RequestID)
	x.SetHeader(protocol.HeaderThreadID, r.ThreadID)
	response = x.Resume(frames)
	response.Encoder = enc
	return response, true, nil
}

// newest returns the request of an agent that runs on the chat, or that ended last, and whether it runs. A chat without a
// request has none: a client asks for the stream of each chat that it opens.
func (s *Server) newest(x *protocol.Exchange, agentID string) (r authz.Request, running bool, err error) {
	ctx, p, chatID := x.Context(), x.Principal(), x.Param("chatId")
	if !id.Valid(chatID) {
		return r, false, apierr.New(apierr.ThreadNotFound, "the id of a chat matches ^[A-Za-z0-9_-]{1,64}$")
	}
	t, err := s.Guard.Thread(ctx, p, chatID)
	if apierr.CodeOf(err) == apierr.ThreadNotFound || err == nil && t.RequestID == "" {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	if t, err = s.Acceptor.Running(ctx, p.Tenant, t); err != nil {
		return r, false, authz.Unavailable(err)
	}
	if r, err = s.Guard.Request(ctx, p, t.RequestID); err != nil || r.AgentID != agentID {
		return authz.Request{}, false, err
	}
	if r.Archived {
		return r, false, nil
	}
	last, err := s.Bus.Last(ctx, r.Log())
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return r, false, authz.Unavailable(err)
	}
	return r, !last.Terminal(), nil
}

// maxRequests is how many requests of a message are read. A longer message begins with a later one of them.
const maxRequests = 100

// message returns the requests that a message consists of, up to r: a request that brings the results of actions and no
// message of the user continues the message of the request before it.
func (s *Server) message(x *protocol.Exchange, r authz.Request) ([]authz.Request, error) {
	if !continues(r) {
		return []authz.Request{r}, nil
	}
	ctx, p := x.Context(), x.Principal()
	var before []string
	for t, err := range s.Bus.ThreadRecords(ctx, p.Tenant, r.ThreadID, 0) {
		if err != nil {
			return nil, authz.Unavailable(err)
		}
		if t.RequestID == r.RequestID {
			break
		}
		if len(t.Resolves) == 0 {
			before = nil
		}
		before = append(before[max(0, len(before)+1-maxRequests):], t.RequestID)
	}
	logs := []authz.Request{r}
	for continues(logs[0]) && len(before) > 0 {
		last := len(before) - 1
		one, err := s.Guard.Request(ctx, p, before[last])
		if err != nil {
			return nil, err
		}
		logs, before = append([]authz.Request{one}, logs...), before[:last]
	}
	return logs, nil
}

// continues reports whether a request continues the message of the request before it.
func continues(r authz.Request) bool {
	return len(r.Request.Context.ActionResults) > 0 && len(r.Request.Messages) == 0
}

// open returns the frames of several logs, one after the other.
func (s *Server) open(ctx context.Context, logs []authz.Request) (stream.Frames, error) {
	first, err := s.Logs.Open(ctx, logs[0], 0)
	if err != nil || len(logs) == 1 {
		return first, err
	}
	return &sequence{logs: s.Logs, current: first, later: logs[1:]}, nil
}

// sequence is the frames of several logs. It implements stream.Frames.
type sequence struct {
	logs    *stream.Logs
	current stream.Frames
	later   []authz.Request
}

// Next implements stream.Frames.
func (q *sequence) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	for {
		f, err := q.current.Next(ctx, wait)
		if !errors.Is(err, io.EOF) || len(q.later) == 0 {
			return f, err
		}
		q.current.Close()
		if q.current, err = q.logs.Open(ctx, q.later[0], 0); err != nil {
			return f, err
		}
		q.later = q.later[1:]
	}
}

// Ready implements stream.Frames.
func (q *sequence) Ready() bool { return q.current.Ready() || len(q.later) > 0 }

// Close implements stream.Frames.
func (q *sequence) Close() { q.current.Close() }
