package api

import (
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/gin-gonic/gin"
)

func (a *API) thread(c *gin.Context) (bus.ThreadRecord, historyapi.ThreadRef, error) {
	p := principal(c)
	t, err := a.Guard.Thread(c.Request.Context(), p, c.Param("threadId"))
	return t, historyapi.ThreadRef{Tenant: p.Tenant, ThreadID: t.ThreadID}, err
}

func (a *API) getThreads(c *gin.Context) error {
	limit, err := number(c, "limit", 200)
	if err != nil {
		return err
	}
	p := principal(c)
	page, err := a.History.Threads(c.Request.Context(), historyapi.ThreadsQuery{
		Tenant: p.Tenant, Owner: p.Subject, Limit: limit, Cursor: c.Query("cursor"),
	})
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, page)
}

func (a *API) getThread(c *gin.Context) error {
	_, ref, err := a.thread(c)
	if err != nil {
		return err
	}
	t, err := a.History.Thread(c.Request.Context(), ref)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, t)
}

func (a *API) deleteThread(c *gin.Context) error {
	t, ref, err := a.thread(c)
	if err != nil {
		return err
	}
	if err := a.Desk.Delete(c.Request.Context(), ref.Tenant, t); err != nil {
		return err
	}
	c.Status(http.StatusNoContent)
	return nil
}

func (a *API) getMessages(c *gin.Context) error {
	limit, err := number(c, "limit", 200)
	if err != nil {
		return err
	}
	_, ref, err := a.readThread(c)
	if err != nil {
		return err
	}
	page, err := a.History.Messages(c.Request.Context(), historyapi.MessagesQuery{ThreadRef: ref, Limit: limit, Cursor: c.Query("cursor")})
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, page)
}

func (a *API) getEvents(c *gin.Context) error {
	q := historyapi.EventsQuery{Cursor: c.Query("cursor")}
	var err error
	if q.Limit, err = number(c, "limit", 1000); err != nil {
		return err
	}
	if q.Since, err = moment(c, "since"); err != nil {
		return err
	}
	if q.Until, err = moment(c, "until"); err != nil {
		return err
	}
	if q.Types, err = eventNames(words(c, "type")); err != nil {
		return err
	}
	if _, q.ThreadRef, err = a.readThread(c); err != nil {
		return err
	}
	page, err := a.History.Events(c.Request.Context(), q)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, page)
}

func eventNames(words []string) ([]event.Name, error) {
	public := slices.DeleteFunc(event.Names(), event.Name.IsInternal)
	names := make([]event.Name, 0, len(words))
	for _, word := range words {
		if !slices.Contains(public, event.Name(word)) {
			return nil, apierr.New(apierr.InvalidMessageFormat, "type=%.40q is no event; use names of %v", word, public)
		}
		names = append(names, event.Name(word))
	}
	return names, nil
}

// getThreadStream streams a thread, request after request, until the client leaves.
func (a *API) getThreadStream(c *gin.Context) error {
	answer, err := a.openThread(c)
	if err != nil {
		return err
	}
	return a.serve(c, answer)
}

// openThread finds where the client stands in a thread. Other screens need to see what was said, so input events are
// always included.
func (a *API) openThread(c *gin.Context) (answer stream.Response, err error) {
	defer a.hurry(c)()
	cursor, err := resumeAfter(c)
	if err != nil {
		return answer, err
	}
	switch from := c.Query("from"); {
	case from != "" && from != "start":
		return answer, apierr.New(apierr.InvalidMessageFormat, "from=%.40q: use \"start\", or leave it out", from)
	case from == "start" && cursor == "":
		cursor = stream.FromStart
	}
	t, ref, err := a.readThread(c)
	if err != nil {
		return answer, err
	}
	if cursor == "" { // what runs may have others waiting behind it
		if t, err = a.Desk.Running(c.Request.Context(), ref.Tenant, t); err != nil {
			return answer, authz.Unavailable(err)
		}
	}
	frames, reset, err := a.Logs.OpenThread(c.Request.Context(), ref.Tenant, t, cursor)
	if err != nil {
		return answer, err
	}
	enc, err := a.encoder(c, codec.Options{Include: []string{string(event.NameInput)}, Cursor: frames.AppendCursor})
	if err != nil {
		frames.Close()
		return answer, err
	}
	c.Header(headerThread, t.ThreadID)
	c.Header(headerStart, frames.Start())
	if reset {
		c.Header(headerReset, "true")
	}
	return stream.Response{Encoder: enc, Frames: a.paced(principal(c).Tenant, frames), KeyID: principal(c).KeyID}, nil
}
