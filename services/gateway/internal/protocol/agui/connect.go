package agui

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/agui/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// postConnect streams a run that exists: its state at the client's cursor, or now, and what follows.
func (s *Server) postConnect(x *protocol.Exchange) error {
	response, err := s.connect(x)
	if err != nil {
		return err
	}
	return x.Stream(response)
}

func (s *Server) connect(x *protocol.Exchange) (response stream.Response, err error) {
	agentID, in, _, err := read(x)
	if err != nil {
		return response, err
	}
	defer x.WithTimeout()()
	r, err := s.find(x, agentID, in)
	x.Audit(in.ThreadID, r.RequestID, err)
	if err != nil {
		return response, err
	}
	from, err := s.position(x, &r)
	if err != nil {
		return response, err
	}
	messages, err := s.earlier(x.Context(), r)
	if err != nil {
		return response, err
	}
	x.SetHeader(protocol.HeaderRequestID, r.RequestID)
	x.SetHeader(protocol.HeaderThreadID, r.ThreadID)
	enc, err := x.Encoder(wire.Codec{RunID: runID(r, in), Attach: &wire.Attach{Messages: messages}}, codec.Options{From: from})
	if err != nil {
		return response, err
	}
	frames, err := s.Logs.Open(x.Context(), r, enc.Start())
	if err != nil {
		return response, err
	}
	response = x.Resume(frames)
	response.Encoder = enc
	return response, nil
}

// find returns the run that the client names, or the one that runs on the thread, or its last one.
func (s *Server) find(x *protocol.Exchange, agentID string, in wire.Input) (authz.Request, error) {
	ctx, p := x.Context(), x.Principal()
	t, err := s.Guard.Thread(ctx, p, in.ThreadID)
	if err != nil {
		return authz.Request{}, err
	}
	if t.RequestID == "" {
		return authz.Request{}, apierr.New(apierr.RequestNotFound, "the thread has no run")
	}
	if t, err = s.Acceptor.Running(ctx, p.Tenant, t); err != nil {
		return authz.Request{}, authz.Unavailable(err)
	}
	r, err := s.Guard.Request(ctx, p, t.RequestID)
	if err == nil && r.AgentID != agentID {
		err = apierr.New(apierr.RequestNotFound, "the run on this thread is one of agent %.64q", r.AgentID)
	}
	return r, err
}

// runID returns the id that the client gave to the run.
func runID(r authz.Request, in wire.Input) string { return cmp.Or(in.RunID, r.RequestID) }

// position returns n of the first event that the client gets after the snapshot: the one after its cursor, or after the newest
// event if it has no cursor, or if its cursor is not of this log. A run that has ended is read from its terminal event.
func (s *Server) position(x *protocol.Exchange, r *authz.Request) (from uint64, err error) {
	ctx := x.Context()
	cursor, err := x.Cursor()
	if err != nil {
		return 0, err
	}
	if cursor != "" {
		at, err := s.Logs.Resume(ctx, *r, cursor)
		if err != nil || !at.Reset && !at.Ended {
			r.Known.Newest = at.Newest
			return at.From, err
		}
	}
	if r.Archived {
		return s.pastEnd(ctx, *r)
	}
	last, err := s.Bus.Last(ctx, r.Log())
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, authz.Unavailable(err)
	case last.Terminal():
		return last.Next() - 1, nil
	default:
		return last.Next(), nil
	}
}

// pastEnd returns n of the terminal event of a run that only history has.
func (s *Server) pastEnd(ctx context.Context, r authz.Request) (uint64, error) {
	ended, err := s.History.Request(ctx, historyapi.RequestRef{Tenant: r.Tenant, RequestID: r.RequestID})
	if err != nil {
		return 0, err
	}
	last, err := event.Decode(ended.Terminal)
	if err != nil {
		return 0, err
	}
	_, n, err := event.ParseCursor(string(last.ID))
	return n, err
}

// Limits of the messages before a run that a client gets.
const (
	earlierMessages = 2000
	earlierPages    = 50
	earlierPage     = 1000 // events
)

// earlier returns the messages of the thread before a run.
func (s *Server) earlier(ctx context.Context, r authz.Request) ([]wire.Message, error) {
	q := historyapi.EventsQuery{
		ThreadRef: historyapi.ThreadRef{Tenant: r.Tenant, ThreadID: r.ThreadID}, Limit: earlierPage,
		Types: []event.Name{
			event.NameInput, event.NameText, event.NameThinking, event.NameToolCall, event.NameToolResult, event.NameFinalAnswer,
			event.NamePlan,
		},
	}
	var replay wire.Replay
	for range earlierPages {
		page, err := s.History.Events(ctx, q)
		if apierr.CodeOf(err) == apierr.ThreadNotFound {
			break // its first request has just begun
		}
		if err != nil {
			return nil, err
		}
		for _, text := range page.Events {
			e, err := event.Decode(text)
			if err != nil {
				return nil, err
			}
			if e.RequestID == r.RequestID {
				return replay.Messages(earlierMessages), nil
			}
			replay.Add(e)
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			break
		}
	}
	return replay.Messages(earlierMessages), nil
}

// cancelling is the response of postCancel.
type cancelling struct {
	ThreadID  string `json:"threadId"`
	RunID     string `json:"runId"`
	RequestID string `json:"requestId"`
	Status    string `json:"status"`
}

// postCancel asks the runner to abort a run. The run may still end otherwise, if it does so first.
func (s *Server) postCancel(x *protocol.Exchange) error {
	agentID, in, _, err := read(x)
	if err != nil {
		return err
	}
	r, err := s.find(x, agentID, in)
	if err != nil {
		return err
	}
	last, err := s.Bus.Last(x.Context(), r.Log())
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return authz.Unavailable(err)
	}
	if r.Archived || last.Terminal() {
		return apierr.New(apierr.RequestFinished, "the run has ended; there is nothing to cancel")
	}
	err = s.Acceptor.Abort(x.Context(), r.Tenant, record.Abort{RequestID: r.RequestID, By: r.Owner, At: s.Bus.Now().UTC()})
	if err != nil {
		return authz.Unavailable(err)
	}
	return x.Reply(http.StatusAccepted, cancelling{r.ThreadID, runID(r, in), r.RequestID, "aborting"})
}
