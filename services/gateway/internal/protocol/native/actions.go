package native

import (
	"net/http"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// getActions lists the open actions of the caller's threads.
func (s *Server) getActions(x *protocol.Exchange) error {
	limit, err := limitParam(x, 200)
	if err != nil {
		return err
	}
	p, query := x.Principal(), x.Query()
	q := historyapi.ActionsQuery{
		Tenant: p.Tenant, Owner: p.Subject, ThreadID: query.Get("threadId"), AgentID: query.Get("agentId"),
		Limit: limit, Cursor: query.Get("cursor"),
	}
	if q.ThreadID != "" {
		_, err := s.Guard.Thread(x.Context(), p, q.ThreadID)
		x.Audit(q.ThreadID, "", err)
		if err != nil {
			return err
		}
	}
	page, err := s.History.Actions(x.Context(), q)
	if err != nil {
		return err
	}
	page.Actions = slices.DeleteFunc(page.Actions, func(a historyapi.Action) bool { return s.expired(a.ExpiresAt) })
	return x.Reply(http.StatusOK, page)
}

// dropExpired removes the open actions of a thread that have expired.
func (s *Server) dropExpired(t *historyapi.Thread) {
	t.OpenActions = slices.DeleteFunc(t.OpenActions, func(a historyapi.OpenAction) bool { return s.expired(a.ExpiresAt) })
}

func (s *Server) expired(at time.Time) bool { return !at.IsZero() && !s.Bus.Now().Before(at) }
