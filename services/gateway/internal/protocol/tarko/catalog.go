package tarko

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// Limits of a list of sessions.
const (
	pageSize    = 200
	maxSessions = 1000 // if the client sets no limit
)

// created is the response of postCreate: the fields that Tarko documents, and those that its server sends.
type created struct {
	SessionID string            `json:"sessionId"`
	CreatedAt int64             `json:"createdAt"`
	Session   info              `json:"session"`
	Events    []json.RawMessage `json:"events"` // empty for a new session
}

// postCreate creates a session (POST /api/v1/sessions/create).
func (s *Server) postCreate(x *protocol.Exchange) error {
	var in draft
	if err := read(x, &in); err != nil {
		return err
	}
	if refused, err := s.checkExclusive(x); refused || err != nil {
		return err
	}
	made, err := s.createSession(x, id.New(id.Thread), in)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusCreated, created{made.ThreadID, millis(made.CreatedAt), s.info(x, made), []json.RawMessage{}})
}

// catalog is the response of getSessions.
type catalog struct {
	Sessions   []info `json:"sessions"`
	NextCursor string `json:"nextCursor,omitempty"` // set if there are more
}

// getSessions lists the caller's sessions, the last changed first.
func (s *Server) getSessions(x *protocol.Exchange) error {
	limit, err := numberParam(x, "limit", maxSessions)
	if err != nil {
		return err
	}
	p, wanted := x.Principal(), limit
	if wanted == 0 {
		wanted = maxSessions
	}
	all := catalog{Sessions: []info{}, NextCursor: x.Query().Get("cursor")}
	for len(all.Sessions) < wanted {
		page, err := s.History.Sessions(x.Context(), historyapi.ThreadsQuery{
			Tenant: p.Tenant, Owner: p.Subject, Limit: min(wanted-len(all.Sessions), pageSize), Cursor: all.NextCursor,
		})
		if err != nil {
			return err
		}
		for _, t := range page.Sessions {
			all.Sessions = append(all.Sessions, s.info(x, asSession(t)))
		}
		if all.NextCursor = page.NextCursor; all.NextCursor == "" {
			break
		}
	}
	return x.Reply(http.StatusOK, all)
}

// asSession converts a session of history. Its time of change may be that of its newest query.
func asSession(t historyapi.Session) record.Session {
	if t.Record == nil {
		return record.Session{
			ThreadID: t.ThreadID, Owner: t.Owner, AgentID: t.AgentID, Name: t.Title, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
		}
	}
	meta := *t.Record
	meta.Name, meta.UpdatedAt = t.Title, t.UpdatedAt
	return meta
}

func (s *Server) getDetails(x *protocol.Exchange) error {
	found, err := s.mustFind(x, x.Query().Get("sessionId"))
	if err != nil {
		return err
	}
	stored, err := s.History.Session(x.Context(), historyapi.ThreadRef{Tenant: found.tenant, ThreadID: found.thread.ThreadID})
	if isNotFound(err) {
		err = apierr.New(apierr.ThreadNotFound, "Session not found")
	}
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, map[string]info{"session": s.info(x, asSession(stored))})
}

// postUpdate merges an object into a session's metadata.
func (s *Server) postUpdate(x *protocol.Exchange) error {
	var in struct {
		SessionID string          `json:"sessionId"`
		Metadata  json.RawMessage `json:"metadata"`
	}
	if err := read(x, &in); err != nil {
		return err
	}
	changed, err := s.change(x, in.SessionID, func(n *record.Session) error { return merge(n, in.Metadata) })
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, map[string]info{"session": changed})
}

// postDelete deletes a session. A query that runs in it is aborted, as Tarko's server does, and its end is awaited; then
// the session is busy only if that takes long, or if other queries wait.
func (s *Server) postDelete(x *protocol.Exchange) error {
	found, err := s.sessionParam(x)
	if err != nil {
		return err
	}
	if _, err := s.abort(x.Context(), found, x.Principal().Subject); err != nil {
		return err
	}
	if err := s.Acceptor.Delete(x.Context(), found.tenant, found.thread); err != nil {
		return err
	}
	return x.Reply(http.StatusOK, map[string]bool{"success": true})
}

// sessionParam returns the session that the body or the URL names.
func (s *Server) sessionParam(x *protocol.Exchange) (session, error) {
	var in struct {
		SessionID string `json:"sessionId"`
	}
	if err := read(x, &in); err != nil {
		return session{}, err
	}
	return s.mustFind(x, x.Query().Get("sessionId"), in.SessionID)
}

func isNotFound(err error) bool { return err != nil && apierr.CodeOf(err) == apierr.ThreadNotFound }

// numberParam reads an integer from the URL; 0 without the parameter.
func numberParam(x *protocol.Exchange, name string, most int) (int, error) {
	text := x.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, invalid("%s must be a number from 0 to %d", name, most)
	}
	return n, nil
}
