package native

import (
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// findThread returns the thread of the path, if the caller may see it.
func (s *Server) findThread(x *protocol.Exchange) (bus.ThreadRecord, historyapi.ThreadRef, error) {
	p := x.Principal()
	t, err := s.Guard.Thread(x.Context(), p, x.Param("threadId"))
	return t, historyapi.ThreadRef{Tenant: p.Tenant, ThreadID: t.ThreadID}, err
}

// readThread is findThread for a caller that reads its events, which is audited.
func (s *Server) readThread(x *protocol.Exchange) (bus.ThreadRecord, historyapi.ThreadRef, error) {
	t, ref, err := s.findThread(x)
	x.Audit(x.Param("threadId"), "", err)
	return t, ref, err
}

func (s *Server) getThreads(x *protocol.Exchange) error {
	limit, err := limitParam(x, 200)
	if err != nil {
		return err
	}
	p := x.Principal()
	page, err := s.History.Threads(x.Context(), historyapi.ThreadsQuery{
		Tenant: p.Tenant, Owner: p.Subject, Limit: limit, Cursor: x.Query().Get("cursor"),
	})
	if err != nil {
		return err
	}
	for i := range page.Threads {
		s.dropExpired(&page.Threads[i])
	}
	return x.Reply(http.StatusOK, page)
}

func (s *Server) getThread(x *protocol.Exchange) error {
	_, ref, err := s.findThread(x)
	if err != nil {
		return err
	}
	t, err := s.History.Thread(x.Context(), ref)
	if err != nil {
		return err
	}
	s.dropExpired(&t)
	return x.Reply(http.StatusOK, t)
}

func (s *Server) deleteThread(x *protocol.Exchange) error {
	t, ref, err := s.findThread(x)
	if err != nil {
		return err
	}
	if err := s.Acceptor.Delete(x.Context(), ref.Tenant, t); err != nil {
		return err
	}
	x.NoContent()
	return nil
}

func (s *Server) getMessages(x *protocol.Exchange) error {
	limit, err := limitParam(x, 200)
	if err != nil {
		return err
	}
	_, ref, err := s.readThread(x)
	if err != nil {
		return err
	}
	page, err := s.History.Messages(x.Context(), historyapi.MessagesQuery{ThreadRef: ref, Limit: limit, Cursor: x.Query().Get("cursor")})
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, page)
}

func (s *Server) getEvents(x *protocol.Exchange) error {
	q := historyapi.EventsQuery{Cursor: x.Query().Get("cursor")}
	var err error
	if q.Limit, err = limitParam(x, 1000); err != nil {
		return err
	}
	if q.Since, err = timeParam(x, "since"); err != nil {
		return err
	}
	if q.Until, err = timeParam(x, "until"); err != nil {
		return err
	}
	included := x.QueryList("include")
	for _, word := range included {
		if word != wire.ToolOutput {
			return apierr.New(apierr.InvalidMessageFormat, "include=%.40q: a list has all events but the output of tools; use %q", word, wire.ToolOutput)
		}
		q.ToolOutputOf = s.showingToolOutput()
	}
	if q.Types, err = eventNames(x.QueryList("type"), len(included) > 0); err != nil {
		return err
	}
	t, ref, err := s.readThread(x)
	if err != nil {
		return err
	}
	if _, err := s.include(x.Principal(), t.AgentID, included); err != nil {
		return err
	}
	q.ThreadRef = ref
	page, err := s.History.Events(x.Context(), q)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, page)
}

// eventNames checks names of events; those of internal events are unknown, except for tool_output if output is set.
func eventNames(words []string, output bool) ([]event.Name, error) {
	public := slices.DeleteFunc(event.Names(), func(n event.Name) bool {
		return n.IsInternal() && (!output || n != event.NameToolOutput)
	})
	names := make([]event.Name, 0, len(words))
	for _, word := range words {
		if !slices.Contains(public, event.Name(word)) {
			return nil, apierr.New(apierr.InvalidMessageFormat, "type=%.40q is not an event; use names of %v", word, public)
		}
		names = append(names, event.Name(word))
	}
	return names, nil
}

// getThreadStream streams a thread, request after request, until the client disconnects.
func (s *Server) getThreadStream(x *protocol.Exchange) error {
	response, err := s.openThread(x)
	if err != nil {
		return err
	}
	return x.Stream(response)
}

// openThread opens a thread after the client's cursor.
func (s *Server) openThread(x *protocol.Exchange) (response stream.Response, err error) {
	defer x.WithTimeout()()
	cursor, err := x.Cursor()
	if err != nil {
		return response, err
	}
	switch from := x.Query().Get("from"); {
	case from != "" && from != "start":
		return response, apierr.New(apierr.InvalidMessageFormat, "from=%.40q: use \"start\", or leave it out", from)
	case from == "start" && cursor == "":
		cursor = stream.FromStart
	}
	t, ref, err := s.readThread(x)
	if err != nil {
		return response, err
	}
	o, err := s.openLogs(x.Context(), ref.Tenant, t, cursor, s.encoding(x))
	if err != nil {
		return response, err
	}
	x.SetThread(t.ThreadID, o.reset)
	x.SetHeader(protocol.HeaderStreamStart, o.start)
	response = x.Resume(o.frames)
	response.Encoder = o.enc
	return response, nil
}
