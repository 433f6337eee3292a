package native

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// findRequest returns the request of the path, if the caller may see it.
func (s *Server) findRequest(x *protocol.Exchange) (authz.Request, error) {
	return s.Guard.Request(x.Context(), x.Principal(), x.Param("requestId"))
}

// readRequest is findRequest for a caller that reads its events, which is audited.
func (s *Server) readRequest(x *protocol.Exchange) (authz.Request, error) {
	r, err := s.findRequest(x)
	x.Audit(r.ThreadID, x.Param("requestId"), err)
	return r, err
}

// getRequest returns the state of a request: from its log while it runs, from history when it has ended.
func (s *Server) getRequest(x *protocol.Exchange) error {
	ctx := x.Context()
	r, err := s.readRequest(x)
	if err != nil {
		return err
	}
	found, err := s.state(ctx, r)
	if err != nil {
		return err
	}
	if found.Status == historyapi.StatusQueued || found.Status == historyapi.StatusRunning {
		return s.replyIndexed(x, r, found)
	}
	if found.UnreadSteers, err = s.unreadSteers(ctx, r); err != nil {
		return err
	}
	ended, err := s.History.Request(ctx, historyapi.RequestRef{Tenant: r.Tenant, RequestID: r.RequestID})
	if apierr.CodeOf(err) == apierr.Unavailable && found.Status != "" {
		return s.replyIndexed(x, r, found)
	}
	if err != nil {
		return err
	}
	ended.UnreadSteers = found.UnreadSteers
	return x.Reply(http.StatusOK, ended)
}

// unreadSteers lists the steers of an ended request that its agent has not read, as long as the bus stores them.
func (s *Server) unreadSteers(ctx context.Context, r authz.Request) ([]string, error) {
	var unread []string
	for steer, err := range s.Bus.Steers(ctx, r.Log(), 0) {
		if err != nil {
			return nil, authz.Unavailable(err)
		}
		unread = append(unread, steer.SteerID)
	}
	if len(unread) == 0 {
		return nil, nil
	}
	for f, err := range s.Bus.Read(ctx, r.Log(), 0) {
		if errors.Is(err, bus.ErrExpired) {
			return nil, nil
		}
		if err != nil {
			return nil, authz.Unavailable(err)
		}
		for line := range f.Each() {
			if line.Name != event.NameInput {
				continue
			}
			e, err := event.Decode(line.JSON)
			if err != nil {
				return nil, err
			}
			if input, ok := e.Body.(event.Input); ok {
				unread = slices.DeleteFunc(unread, func(id string) bool { return id == input.SteerID })
			}
		}
	}
	return unread, nil
}

// replyIndexed replies with a state that was read from the log, and adds the request's index on its thread.
func (s *Server) replyIndexed(x *protocol.Exchange, r authz.Request, found historyapi.Request) error {
	ctx := x.Context()
	t, err := s.Bus.Thread(ctx, r.Tenant, r.ThreadID)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return authz.Unavailable(err)
	}
	if t.RequestID == r.RequestID {
		found.Index = t.Index
		return x.Reply(http.StatusOK, found)
	}
	for t, err := range s.Bus.ThreadRecords(ctx, r.Tenant, r.ThreadID, 0) {
		if err != nil {
			return authz.Unavailable(err)
		}
		if t.RequestID == r.RequestID {
			found.Index = t.Index
			break
		}
	}
	return x.Reply(http.StatusOK, found)
}

// state reads a request's state from its log. The status is empty if only history has the request.
func (s *Server) state(ctx context.Context, r authz.Request) (historyapi.Request, error) {
	q := historyapi.Request{
		RequestID: r.RequestID, ThreadID: r.ThreadID, AgentID: r.AgentID, Owner: r.Owner, CreatedAt: r.At,
	}
	if r.Archived {
		return q, nil
	}
	last, err := s.Bus.Last(ctx, r.Log())
	switch {
	case errors.Is(err, bus.ErrNotFound):
		q.Status = historyapi.StatusQueued
		return q, nil
	case err != nil:
		return q, authz.Unavailable(err)
	case !last.Terminal():
		q.Status = historyapi.StatusRunning
		return q, nil
	}
	err = addTerminal(&q, last)
	return q, err
}

// addTerminal adds the status, the usage and the end from the terminal event.
func addTerminal(q *historyapi.Request, last event.Frame) error {
	for line := range last.Each() {
		if !line.Name.IsTerminal() {
			continue
		}
		e, err := event.Decode(line.JSON)
		if err != nil {
			return err
		}
		q.EndedAt, q.Terminal = e.Time, line.JSON
		switch body := e.Body.(type) {
		case event.Done:
			q.Status, q.Usage = historyapi.StatusDone, &body.Usage
		case event.Error:
			q.Status, q.Usage = historyapi.StatusError, body.Usage
		case event.Aborted:
			q.Status, q.Usage = historyapi.StatusAborted, body.Usage
		}
	}
	return nil
}

// getRequestStream streams a request from its first event, or from the cursor of a client that resumes.
func (s *Server) getRequestStream(x *protocol.Exchange) error {
	response, err := s.openRequest(x)
	if err != nil || response.Frames == nil {
		return err
	}
	return x.Stream(response)
}

// openRequest opens the log of a request after the client's cursor. Without frames the response is complete: the client has
// received the terminal event.
func (s *Server) openRequest(x *protocol.Exchange) (response stream.Response, err error) {
	defer x.WithTimeout()()
	ctx := x.Context()
	cursor, err := x.Cursor()
	if err != nil {
		return response, err
	}
	r, err := s.readRequest(x)
	if err != nil {
		return response, err
	}
	x.SetHeader(protocol.HeaderRequestID, r.RequestID)
	o, err := s.openLog(ctx, r, cursor, s.encoding(x))
	if err != nil {
		return response, err
	}
	x.SetThread(r.ThreadID, o.reset)
	if o.frames == nil {
		x.NoContent()
		return response, nil
	}
	response = x.Resume(o.frames)
	response.Encoder = o.enc
	return response, nil
}

// abortReply is the response of postAbort.
type abortReply struct {
	RequestID string `json:"requestId"`
	Status    string `json:"status"`
}

// postAbort asks the runner to abort a request. The request may still end otherwise, if it does so first.
func (s *Server) postAbort(x *protocol.Exchange) error {
	body, err := x.Body()
	if err != nil {
		return err
	}
	ctx := x.Context()
	r, err := s.findRequest(x)
	if err != nil {
		return err
	}
	reason, err := wire.DecodeAbort(body)
	if err != nil {
		return err
	}
	if err := s.abort(ctx, r, reason); err != nil {
		return err
	}
	return x.Reply(http.StatusAccepted, abortReply{r.RequestID, "aborting"})
}

// abort records the abort of a request that has not ended.
func (s *Server) abort(ctx context.Context, r authz.Request, reason string) error {
	found, err := s.state(ctx, r)
	if err != nil {
		return err
	}
	if found.Status != historyapi.StatusQueued && found.Status != historyapi.StatusRunning {
		return apierr.New(apierr.RequestFinished, "the request has ended; there is nothing to abort")
	}
	err = s.Acceptor.Abort(ctx, r.Tenant, record.Abort{RequestID: r.RequestID, By: r.Owner, Reason: reason, At: s.Bus.Now().UTC()})
	if err != nil {
		return authz.Unavailable(err)
	}
	return nil
}
