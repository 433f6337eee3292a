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

// state is the state of a session in Tarko's protocol.
type state string

const (
	idle        state = "idle"
	executing   state = "executing"
	aborted     state = "aborted" // the last query was aborted
	failedState state = "error"   // the last query failed
)

// statusReply is the response of getStatus.
type statusReply struct {
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
	return x.Reply(http.StatusOK, statusReply{found.thread.ThreadID, status{now == executing, now}})
}

// state returns the state of a session, and the id of the request that runs or ended last ("" = the session has no
// requests).
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
		now, err := s.stateWithoutLog(ctx, log)
		return now, running.RequestID, err
	}
	if err != nil {
		return "", "", authz.Unavailable(err)
	}
	if !last.Terminal() {
		return executing, running.RequestID, nil
	}
	return endState(last.Names[len(last.Names)-1]), running.RequestID, nil
}

func endState(name event.Name) state {
	switch name {
	case event.NameAborted:
		return aborted
	case event.NameError:
		return failedState
	default:
		return idle
	}
}

// stateWithoutLog returns the state of a session whose last request has no log on the bus: it has not started, or has
// expired.
func (s *Server) stateWithoutLog(ctx context.Context, log bus.LogID) (state, error) {
	_, err := s.Bus.Accepted(ctx, log)
	if err == nil {
		return executing, nil
	}
	if !errors.Is(err, bus.ErrNotFound) {
		return "", authz.Unavailable(err)
	}
	stored, err := s.History.Request(ctx, historyapi.RequestRef{Tenant: log.Tenant, RequestID: log.RequestID})
	if err != nil {
		return "", err
	}
	switch stored.Status {
	case historyapi.StatusAborted:
		return aborted, nil
	case historyapi.StatusError:
		return failedState, nil
	default:
		return idle, nil
	}
}

// postAbort aborts the running query. If none runs, it replies with success false and not with an error.
func (s *Server) postAbort(x *protocol.Exchange) error {
	found, err := s.sessionParam(x)
	if err != nil {
		return err
	}
	stopped, err := s.abort(x.Context(), found, x.Principal().Subject)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, map[string]bool{"success": stopped})
}

// abortTimeout is how long the response to an abort waits for the end of the request.
const abortTimeout = 3 * time.Second

// abort aborts the running query of a session, and reports whether one ran. It waits for the end for a short time, as
// Tarko's server does: a client that aborts a run sends the next query at once, which would be refused as busy.
func (s *Server) abort(ctx context.Context, found session, by string) (bool, error) {
	now, requestID, err := s.state(ctx, found)
	if err != nil || now != executing {
		return false, err
	}
	err = s.Acceptor.Abort(ctx, found.tenant, record.Abort{RequestID: requestID, By: by, At: s.Bus.Now().UTC()})
	if err != nil {
		return false, authz.Unavailable(err)
	}
	wait, cancel := context.WithTimeout(ctx, abortTimeout)
	defer cancel()
	err = s.Acceptor.AwaitEnd(wait, bus.LogID{Tenant: found.tenant, RequestID: requestID})
	if err != nil && wait.Err() == nil {
		return false, authz.Unavailable(err)
	}
	return true, nil
}

// refusal is the response if another session runs although only one may.
type refusal struct {
	Error            string `json:"error"`
	RunningSessionID string `json:"runningSessionId"`
}

// checkExclusive replies with a refusal if the configuration allows one running session for each tenant and another one
// runs. It asks history, whose data may be older by a moment.
func (s *Server) checkExclusive(x *protocol.Exchange) (refused bool, err error) {
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
