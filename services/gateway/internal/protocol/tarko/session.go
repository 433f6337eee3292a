package tarko

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// Limits of a session's metadata.
const (
	maxName     = 500 // characters
	maxTags     = 50
	maxTag      = 100 // characters
	maxMetadata = 64 << 10
	maxSettings = 16 << 10
)

// attempts bounds how often a change is retried that conflicts with another one.
const attempts = 5

// failure is an error in the form that Tarko's clients read.
type failure struct {
	Error string `json:"error"`
}

// mustFind is find for the first id that is not empty, of the URL or of the body.
func (s *Server) mustFind(x *protocol.Exchange, ids ...string) (session, error) {
	for _, one := range ids {
		if one != "" {
			return s.find(x.Context(), x.Principal(), one)
		}
	}
	return session{}, invalid("Session ID is required")
}

// mustRead is mustFind for a caller that reads the session's events, which is audited.
func (s *Server) mustRead(x *protocol.Exchange, ids ...string) (session, error) {
	found, err := s.mustFind(x, ids...)
	x.Audit(cmp.Or(ids...), "", err)
	return found, err
}

// session is a thread with its metadata.
type session struct {
	tenant string
	thread bus.ThreadRecord
	record bus.SessionRecord // zero = not stored on the bus
}

// find returns a session that the principal may see.
func (s *Server) find(ctx context.Context, p auth.Principal, sessionID string) (session, error) {
	thread, err := s.Guard.Thread(ctx, p, sessionID)
	if apierr.CodeOf(err) == apierr.ThreadNotFound {
		return session{}, apierr.Wrap(err, apierr.ThreadNotFound, "Session not found")
	}
	if err != nil {
		return session{}, err
	}
	record, err := s.Bus.Session(ctx, p.Tenant, sessionID)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return session{}, authz.Unavailable(err)
	}
	return session{p.Tenant, thread, record}, nil
}

// metadata returns the session's metadata, from its record or, if that has expired from the stream, from history.
func (s *Server) metadata(ctx context.Context, found session) (record.Session, error) {
	if found.record.ThreadID != "" {
		return found.record.Session, nil
	}
	stored, err := s.History.Session(ctx, historyapi.ThreadRef{Tenant: found.tenant, ThreadID: found.thread.ThreadID})
	if err != nil {
		return record.Session{}, err
	}
	return asSession(stored), nil
}

// change applies edit to the session's metadata and stores it. It retries after a conflict.
func (s *Server) change(x *protocol.Exchange, sessionID string, edit func(*record.Session) error) (info, error) {
	ctx, p := x.Context(), x.Principal()
	if err := x.CheckStorage(); err != nil {
		return info{}, err
	}
	for range attempts {
		found, err := s.mustFind(x, sessionID)
		if err != nil {
			return info{}, err
		}
		before, err := s.metadata(ctx, found)
		if err != nil {
			return info{}, err
		}
		next := before
		next.UpdatedAt = s.Bus.Now().UTC()
		if err := edit(&next); err != nil {
			return info{}, err
		}
		written, err := s.Bus.UpdateSession(ctx, p.Tenant, next, bus.SessionRecord{Session: before, Sequence: found.record.Sequence})
		if err == nil {
			return s.info(x, written.Session), nil
		}
		if !errors.Is(err, bus.ErrConflict) {
			return info{}, authz.Unavailable(err)
		}
	}
	return info{}, apierr.New(apierr.Unavailable, "Others change this session at the same time; try again")
}

// draft is what a client may set of a session that it creates.
type draft struct {
	Name            string          `json:"name"`
	Tags            []string        `json:"tags"`
	Agent           string          `json:"agent"` // the agent of the session, an extension
	Metadata        json.RawMessage `json:"metadata"`
	RuntimeSettings json.RawMessage `json:"runtimeSettings"`
	AgentOptions    json.RawMessage `json:"agentOptions"`
}

// createSession creates a session. If its thread id exists, an earlier attempt of the same call has created it.
func (s *Server) createSession(x *protocol.Exchange, threadID string, d draft) (record.Session, error) {
	if err := s.check(d); err != nil {
		return record.Session{}, err
	}
	p, now := x.Principal(), s.Bus.Now().UTC()
	if err := x.CheckStorage(); err != nil {
		return s.existingSession(x, threadID, err)
	}
	made := record.Session{
		ThreadID: threadID, Owner: p.Subject, AgentID: s.agent, Name: d.Name, Tags: d.Tags, CreatedAt: now, UpdatedAt: now,
	}
	if d.Agent != "" {
		made.AgentID = d.Agent
	}
	if err := s.applySettings(&made, d.RuntimeSettings); err != nil {
		return made, err
	}
	for _, more := range []json.RawMessage{d.Metadata, agentOptionsMember(d.AgentOptions)} {
		if err := merge(&made, more); err != nil {
			return made, err
		}
	}
	written, err := s.Bus.UpdateSession(x.Context(), p.Tenant, made, bus.SessionRecord{})
	if errors.Is(err, bus.ErrConflict) {
		written, err = s.Bus.Session(x.Context(), p.Tenant, threadID)
	}
	if err != nil {
		return made, authz.Unavailable(err)
	}
	return written.Session, nil
}

// existingSession returns the session that an earlier attempt of the same call has created, or else the refusal.
func (s *Server) existingSession(x *protocol.Exchange, threadID string, refusal error) (record.Session, error) {
	made, err := s.Bus.Session(x.Context(), x.Principal().Tenant, threadID)
	if errors.Is(err, bus.ErrNotFound) {
		return record.Session{}, refusal
	}
	if err != nil {
		return record.Session{}, authz.Unavailable(err)
	}
	return made.Session, nil
}

func (s *Server) check(d draft) error {
	if _, ok := s.Config.Agents[d.Agent]; d.Agent != "" && !ok {
		return agentNotFound(d.Agent)
	}
	if err := checkName(d.Name); err != nil {
		return err
	}
	if err := checkObject("agentOptions", d.AgentOptions, maxSettings); err != nil {
		return err
	}
	return checkTags(d.Tags)
}

func checkName(name string) error {
	if utf8.RuneCountInString(name) > maxName {
		return invalid("name is longer than %d characters", maxName)
	}
	return nil
}

func checkTags(tags []string) error {
	if len(tags) > maxTags {
		return invalid("tags has more than %d entries", maxTags)
	}
	if slices.ContainsFunc(tags, func(tag string) bool { return utf8.RuneCountInString(tag) > maxTag }) {
		return invalid("tags has an entry of more than %d characters", maxTag)
	}
	return nil
}

func agentNotFound(name string) error {
	return apierr.New(apierr.AgentNotFound, "There is no agent %.64q", name)
}
