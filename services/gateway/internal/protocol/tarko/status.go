package tarko

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// state is where a session stands, in Tarko's words.
type state string

const (
	idle      state = "idle"
	executing state = "executing"
	aborted   state = "aborted" // so ended its last query
	broken    state = "error"   // so ended its last query
)

// standing is the answer of getStatus.
type standing struct {
	SessionID string `json:"sessionId"`
	Status    status `json:"status"`
}

type status struct {
	IsProcessing bool  `json:"isProcessing"`
	State        state `json:"state"`
}

func (s *Server) getStatus(x *protocol.Exchange) error {
	found, err := s.mustFind(x, x.Query().Get("sessionId"))
	if err != nil {
		return err
	}
	now, _, err := s.state(x.Context(), found)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, standing{found.thread.ThreadID, status{now == executing, now}})
}

// state says where a session stands, and which of its requests runs or ended last ("" = it never had one).
func (s *Server) state(ctx context.Context, found session) (state, string, error) {
	if found.thread.RequestID == "" {
		return idle, "", nil
	}
	running, err := s.Acceptor.Running(ctx, found.tenant, found.thread)
	if err != nil {
		return "", "", authz.Unavailable(err)
	}
	log := bus.LogID{Tenant: found.tenant, RequestID: running.RequestID}
	last, err := s.Bus.Last(ctx, log)
	if errors.Is(err, bus.ErrNotFound) {
		now, err := s.unwritten(ctx, log)
		return now, running.RequestID, err
	}
	if err != nil {
		return "", "", authz.Unavailable(err)
	}
	if !last.Terminal() {
		return executing, running.RequestID, nil
	}
	return ending(last.Names[len(last.Names)-1]), running.RequestID, nil
}

func ending(name event.Name) state {
	switch name {
	case event.NameAborted:
		return aborted
	case event.NameError:
		return broken
	default:
		return idle
	}
}

// unwritten is the state of a session whose request has no log on the bus: it is yet to begin, or long ago.
func (s *Server) unwritten(ctx context.Context, log bus.LogID) (state, error) {
	_, err := s.Bus.Accepted(ctx, log)
	if err == nil {
		return executing, nil
	}
	if !errors.Is(err, bus.ErrNotFound) {
		return "", authz.Unavailable(err)
	}
	told, err := s.History.Request(ctx, historyapi.RequestRef{Tenant: log.Tenant, RequestID: log.RequestID})
	if err != nil {
		return "", err
	}
	switch told.Status {
	case historyapi.StatusAborted:
		return aborted, nil
	case historyapi.StatusError:
		return broken, nil
	default:
		return idle, nil
	}
}

// postAbort asks for the end of what runs. Where nothing does, there is no success, and no error either.
func (s *Server) postAbort(x *protocol.Exchange) error {
	found, err := s.named(x)
	if err != nil {
		return err
	}
	stopped, err := s.abort(x.Context(), found, x.Principal().Subject)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, map[string]bool{"success": stopped})
}

// stopWait is how long the answer to an abort waits for the end that it asks for.
const stopWait = 3 * time.Second

// abort asks for the end of what runs on a session, and reports whether anything does. It waits a moment for that end, as
// Tarko's server does: who stops a run sends the next query at once, and would be told that the session is busy.
func (s *Server) abort(ctx context.Context, found session, by string) (bool, error) {
	now, requestID, err := s.state(ctx, found)
	if err != nil || now != executing {
		return false, err
	}
	err = s.Acceptor.Abort(ctx, found.tenant, record.Abort{RequestID: requestID, By: by, At: s.Bus.Now().UTC()})
	if err != nil {
		return false, authz.Unavailable(err)
	}
	wait, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	err = s.Acceptor.AwaitEnd(wait, bus.LogID{Tenant: found.tenant, RequestID: requestID})
	if err != nil && wait.Err() == nil {
		return false, authz.Unavailable(err)
	}
	return true, nil
}

// refusal says that another session runs, where only one may.
type refusal struct {
	Error            string `json:"error"`
	RunningSessionID string `json:"runningSessionId"`
}

// refuseSecond answers for the caller when the configuration wants one session of a tenant at a time and another one
// runs. It goes by what history knows, which may be a moment behind.
func (s *Server) refuseSecond(x *protocol.Exchange) (refused bool, err error) {
	if !s.Config.Gateway.Sessions.Exclusive {
		return false, nil
	}
	open, err := s.History.Open(x.Context(), historyapi.OpenQuery{
		Before: s.Bus.Now().Add(time.Hour), Tenant: x.Principal().Tenant, Limit: 1,
	})
	if err != nil || len(open.Requests) == 0 {
		return false, err
	}
	return true, x.Reply(http.StatusConflict, refusal{
		"Server is in exclusive mode and another session is currently running", open.Requests[0].ThreadID,
	})
}
