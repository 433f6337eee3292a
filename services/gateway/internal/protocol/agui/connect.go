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
	output, err := s.toolOutput(x, agentID)
	if err != nil {
		return response, err
	}
	messages, err := s.earlier(x.Context(), r)
	if err != nil {
		return response, err
	}
	x.SetHeader(protocol.HeaderRequestID, r.RequestID)
	x.SetHeader(protocol.HeaderThreadID, r.ThreadID)
	enc, err := x.Encoder(wire.Codec{Attach: &wire.Attach{Messages: messages}}, codec.Options{From: from, ToolOutput: output})
	if err != nil {
		return response, err
	}
	frames, err := s.Logs.Open(x.Context(), r.Request, enc.Start())
	if err != nil {
		return response, err
	}
	response = x.Resume(frames)
	response.Encoder = enc
	return response, nil
}

// found is a run that the caller may see.
type found struct {
	authz.Request
	named bool // by the client
	first bool // on its thread
}

// find returns the run that the client names; otherwise the one that runs on the thread, or its last one.
func (s *Server) find(x *protocol.Exchange, agentID string, in wire.Input) (r found, err error) {
	ctx, p := x.Context(), x.Principal()
	t, err := s.Guard.Thread(ctx, p, in.ThreadID)
	if err != nil {
		return r, err
	}
	if t.RequestID == "" {
		return r, apierr.New(apierr.RequestNotFound, "the thread has no run")
	}
	if t, err = s.Acceptor.Running(ctx, p.Tenant, t); err != nil {
		return r, authz.Unavailable(err)
	}
	if r.Request, err = s.Guard.Request(ctx, p, t.RequestID); err != nil {
		return r, err
	}
	r.first, r.named = t.Index == 0, isRun(r.Request, in.RunID)
	if !r.named && in.RunID != "" {
		if err := s.search(x, in, &r); err != nil {
			return r, err
		}
	}
	if r.AgentID != agentID {
		err = apierr.New(apierr.RequestNotFound, "the run on this thread is one of agent %.64q", r.AgentID)
	}
	return r, err
}

// searched is how many of a thread's newest runs are searched for one that the client names. Clients that load a page make a
// new id each time, which no run has.
const searched = 8

// search sets r to the run that the client names, if that is one of the newest of the thread.
func (s *Server) search(x *protocol.Exchange, in wire.Input, r *found) error {
	ctx, p := x.Context(), x.Principal()
	var newest []bus.ThreadRecord
	for t, err := range s.Bus.ThreadRecords(ctx, p.Tenant, in.ThreadID, 0) {
		if err != nil {
			return authz.Unavailable(err)
		}
		newest = append(newest[max(0, len(newest)+1-searched):], t)
	}
	for _, t := range newest {
		one, err := s.Guard.Request(ctx, p, t.RequestID)
		if apierr.CodeOf(err) == apierr.RequestNotFound {
			continue
		}
		if err != nil {
			return err
		}
		if isRun(one, in.RunID) {
			*r = found{one, true, t.Index == 0}
			return nil
		}
	}
	return nil
}

// isRun reports whether a request is the run of an id: that of its client, or the id of the request.
func isRun(r authz.Request, runID string) bool {
	return runID != "" && (r.RequestID == runID || wire.RunID(r.Note) == runID)
}

// runID returns the id of a run, as its events have it.
func runID(r authz.Request) string { return cmp.Or(wire.RunID(r.Note), r.RequestID) }

// position returns n of the first event that the client gets after the snapshot: the one after its cursor, or after the newest
// event if it has no cursor, or has not named the run of its cursor. A run that has ended is read from its terminal event.
func (s *Server) position(x *protocol.Exchange, r *found) (from uint64, err error) {
	ctx := x.Context()
	cursor, err := x.Cursor()
	if err != nil {
		return 0, err
	}
	if cursor != "" {
		if _, _, err := event.ParseCursor(cursor); err != nil {
			return 0, apierr.Wrap(err, apierr.InvalidMessageFormat, "the id to resume after must be one that a stream gave, like k3f9-17")
		}
	}
	if cursor != "" && r.named {
		at, err := s.Logs.Resume(ctx, r.Request, cursor)
		if err != nil || !at.Reset && !at.Ended {
			r.Known.Newest = at.Newest
			return at.From, err
		}
	}
	if r.Archived {
		return s.pastEnd(ctx, r.Request)
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

// earlierMessages is the most messages before a run that a client gets.
const earlierMessages = 2000

// earlier returns the messages of the thread before a run.
func (s *Server) earlier(ctx context.Context, r found) ([]wire.Message, error) {
	if r.first {
		return nil, nil
	}
	var replay wire.Replay
	for e, err := range s.ThreadEvents(ctx, historyapi.ThreadRef{Tenant: r.Tenant, ThreadID: r.ThreadID}, []event.Name{
		event.NameInput, event.NameText, event.NameThinking, event.NameToolCall, event.NameToolResult, event.NameFinalAnswer,
		event.NamePlan,
	}) {
		if err != nil {
			return nil, err
		}
		if e.RequestID == r.RequestID {
			break
		}
		replay.Add(e)
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
	if err == nil && !r.named && in.RunID != "" {
		err = apierr.New(apierr.RequestNotFound, "the thread has no run %.128q; leave out runId to cancel the one that runs", in.RunID)
	}
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
	return x.Reply(http.StatusAccepted, cancelling{r.ThreadID, runID(r.Request), r.RequestID, "aborting"})
}
