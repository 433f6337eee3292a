package api

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
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/gin-gonic/gin"
)

func (a *API) request(c *gin.Context) (authz.Request, error) {
	return a.Guard.Request(c.Request.Context(), principal(c), c.Param("requestId"))
}

// getRequest says where a request stands: the log knows while it runs, history knows more when it has ended.
func (a *API) getRequest(c *gin.Context) error {
	ctx := c.Request.Context()
	r, err := a.readRequest(c)
	if err != nil {
		return err
	}
	known, err := a.standing(ctx, r)
	if err != nil {
		return err
	}
	if known.Status == historyapi.StatusQueued || known.Status == historyapi.StatusRunning {
		return a.replyIndexed(c, r, known)
	}
	if known.UnreadSteers, err = a.unread(ctx, r); err != nil {
		return err
	}
	told, err := a.History.Request(ctx, historyapi.RequestRef{Tenant: r.Tenant, RequestID: r.RequestID})
	if apierr.CodeOf(err) == apierr.Unavailable && known.Status != "" {
		return a.replyIndexed(c, r, known)
	}
	if err != nil {
		return err
	}
	told.UnreadSteers = known.UnreadSteers
	return reply(c, http.StatusOK, told)
}

// unread lists the steers of an ended request that its agent has not read, as long as the bus remembers them.
func (a *API) unread(ctx context.Context, r authz.Request) ([]string, error) {
	var said []string
	for s, err := range a.Bus.Steers(ctx, r.Log(), 0) {
		if err != nil {
			return nil, authz.Unavailable(err)
		}
		said = append(said, s.SteerID)
	}
	if len(said) == 0 {
		return nil, nil
	}
	for f, err := range a.Bus.Read(ctx, r.Log(), 0) {
		if errors.Is(err, bus.ErrForgotten) {
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
				said = slices.DeleteFunc(said, func(id string) bool { return id == input.SteerID })
			}
		}
	}
	return said, nil
}

// replyIndexed answers with what the log told, and the request's index on its thread.
func (a *API) replyIndexed(c *gin.Context, r authz.Request, known historyapi.Request) error {
	ctx := c.Request.Context()
	t, err := a.Bus.Thread(ctx, r.Tenant, r.ThreadID)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return authz.Unavailable(err)
	}
	if t.RequestID == r.RequestID {
		known.Index = t.Index
		return reply(c, http.StatusOK, known)
	}
	for t, err := range a.Bus.ThreadRecords(ctx, r.Tenant, r.ThreadID, 0) {
		if err != nil {
			return authz.Unavailable(err)
		}
		if t.RequestID == r.RequestID {
			known.Index = t.Index
			break
		}
	}
	return reply(c, http.StatusOK, known)
}

// standing reads a request's state from its log; an empty status when only history can tell.
func (a *API) standing(ctx context.Context, r authz.Request) (historyapi.Request, error) {
	q := historyapi.Request{
		RequestID: r.RequestID, ThreadID: r.ThreadID, AgentID: r.AgentID, Owner: r.Owner, CreatedAt: r.At,
	}
	if r.Past {
		return q, nil
	}
	last, err := a.Bus.Last(ctx, r.Log())
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
	err = conclude(&q, last)
	return q, err
}

// conclude adds what the terminal event says.
func conclude(q *historyapi.Request, last event.Frame) error {
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

// getRequestStream streams a request to whoever comes, or comes back.
func (a *API) getRequestStream(c *gin.Context) error {
	answer, err := a.openRequest(c)
	if err != nil || answer.Frames == nil {
		return err
	}
	return a.serve(c, answer)
}

// openRequest finds where the client stands and opens the log there. No frames mean that it has seen everything.
func (a *API) openRequest(c *gin.Context) (answer stream.Response, err error) {
	defer a.hurry(c)()
	ctx := c.Request.Context()
	cursor, err := resumeAfter(c)
	if err != nil {
		return answer, err
	}
	r, err := a.readRequest(c)
	if err != nil {
		return answer, err
	}
	var at stream.Position
	if cursor != "" {
		if at, err = a.Logs.Resume(ctx, r, cursor); err != nil {
			return answer, err
		}
		r.Known.Newest = at.Newest
	}
	enc, err := a.encoder(c, codec.Options{From: at.From})
	if err != nil {
		return answer, err
	}
	c.Header(headerRequest, r.RequestID)
	c.Header(headerThread, r.ThreadID)
	if at.Ended {
		c.Status(http.StatusNoContent)
		return answer, nil
	}
	if at.Reset {
		c.Header(headerReset, "true")
	}
	frames, err := a.Logs.Open(ctx, r, enc.Start())
	return stream.Response{Encoder: enc, Frames: a.paced(principal(c).Tenant, frames), KeyID: principal(c).KeyID}, err
}

// resumeAfter is the cursor that the client sent, in a header as browsers do or in the query; "" when it sent none.
func resumeAfter(c *gin.Context) (string, error) {
	headers := c.Request.Header.Values("Last-Event-ID")
	queries := c.QueryArray("after")
	cursor := ""
	for _, one := range append(headers, queries...) {
		if one == "" {
			continue
		}
		if cursor != "" && cursor != one {
			return "", apierr.New(apierr.InvalidMessageFormat, "Last-Event-ID and after name different events; send one of them")
		}
		cursor = one
	}
	return cursor, nil
}

// aborting is the answer of abort.
type aborting struct {
	RequestID string `json:"requestId"`
	Status    string `json:"status"`
}

// abort asks for the end of a request. Whoever runs it decides how it ends: it may be done before it hears of this.
func (a *API) abort(c *gin.Context) error {
	ctx := c.Request.Context()
	r, err := a.request(c)
	if err != nil {
		return err
	}
	known, err := a.standing(ctx, r)
	if err != nil {
		return err
	}
	if known.Status != historyapi.StatusQueued && known.Status != historyapi.StatusRunning {
		return apierr.New(apierr.RequestFinished, "the request has ended; there is nothing to abort")
	}
	err = a.Desk.Abort(ctx, r.Tenant, record.Abort{RequestID: r.RequestID, By: r.Owner, At: a.Bus.Now().UTC()})
	if err != nil {
		return authz.Unavailable(err)
	}
	return reply(c, http.StatusAccepted, aborting{r.RequestID, "aborting"})
}
