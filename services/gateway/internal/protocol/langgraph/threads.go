package langgraph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/langgraph/wire"
	jsonv2 "github.com/go-json-experiment/json"
)

// thread is a thread in LangGraph's format. Its values are those of GET …/state.
type thread struct {
	ThreadID   string                      `json:"thread_id"`
	CreatedAt  time.Time                   `json:"created_at"`
	UpdatedAt  time.Time                   `json:"updated_at"`
	Metadata   map[string]json.RawMessage  `json:"metadata"`
	Status     string                      `json:"status"` // idle, busy, interrupted, error
	Values     *wire.Values                `json:"values"`
	Interrupts map[string][]wire.Interrupt `json:"interrupts"`
}

const (
	threadIdle        = "idle"
	threadBusy        = "busy"
	threadInterrupted = "interrupted"
	threadError       = "error"
)

// maxMetadata is the limit of a thread's metadata, in bytes.
const maxMetadata = 64 << 10

// draft is the body of a new thread.
type draft struct {
	ThreadID string                     `json:"thread_id"`
	Metadata map[string]json.RawMessage `json:"metadata"`
	IfExists string                     `json:"if_exists"`
	Steps    []json.RawMessage          `json:"supersteps"`
}

func (d draft) check() error {
	switch {
	case d.ThreadID != "" && !id.Valid(d.ThreadID):
		return apierr.New(apierr.InvalidMessageFormat, "thread_id %.80q must match ^[A-Za-z0-9_-]{1,64}$", d.ThreadID)
	case len(d.Steps) > 0:
		return apierr.New(apierr.InvalidMessageFormat, "supersteps are not supported; start a run with the whole conversation as input")
	case d.IfExists != "" && d.IfExists != "raise" && d.IfExists != "do_nothing":
		return apierr.New(apierr.InvalidMessageFormat, "if_exists is %.40q; use \"raise\" or \"do_nothing\"", d.IfExists)
	}
	return nil
}

// createThread stores a thread without a run.
func (s *Server) createThread(x *protocol.Exchange) error {
	var d draft
	if err := read(x, &d); err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	if err := x.CheckStorage(); err != nil {
		return err
	}
	threadID := d.ThreadID
	if threadID == "" {
		var err error
		if threadID, err = x.NewThreadID(); err != nil {
			return err
		}
	}
	ctx, p, now := x.Context(), x.Principal(), s.Bus.Now().UTC()
	_, err := s.Guard.Thread(ctx, p, threadID)
	switch {
	case err == nil && d.ThreadID != "" && d.IfExists != "do_nothing":
		return apierr.New(apierr.ThreadBusy, "the thread exists; send if_exists \"do_nothing\" to use it")
	case err == nil:
		return s.replyThread(x, threadID)
	case apierr.CodeOf(err) != apierr.ThreadNotFound:
		return err
	}
	made := record.Session{
		ThreadID: threadID, Owner: p.Subject, AgentID: cmp.Or(text(d.Metadata["graph_id"]), text(d.Metadata["assistant_id"])),
		CreatedAt: now, UpdatedAt: now,
	}
	if made.Metadata, err = encodeMetadata(d.Metadata); err != nil {
		return err
	}
	_, err = s.Bus.UpdateSession(ctx, p.Tenant, made, bus.SessionRecord{})
	if errors.Is(err, bus.ErrConflict) { // another call has created it
		return s.replyThread(x, threadID)
	}
	if err != nil {
		return authz.Unavailable(err)
	}
	return x.Reply(http.StatusOK, newThread(created(made)))
}

// created is what history will have of a new thread.
func created(made record.Session) historyapi.Session {
	return historyapi.Session{Record: &made, Thread: historyapi.Thread{
		ThreadID: made.ThreadID, AgentID: made.AgentID, CreatedAt: made.CreatedAt, UpdatedAt: made.UpdatedAt,
	}}
}

// text returns a string of JSON; "" for anything else.
func text(value json.RawMessage) (s string) {
	if jsonv2.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

func encodeMetadata(members map[string]json.RawMessage) (json.RawMessage, error) {
	if len(members) == 0 {
		return nil, nil
	}
	encoded, err := jsonv2.Marshal(members, jsonv2.Deterministic(true))
	if err == nil && len(encoded) > maxMetadata {
		err = apierr.New(apierr.MessageTooLarge, "metadata has %d bytes; at most %d are allowed", len(encoded), maxMetadata)
	}
	return encoded, err
}

func (s *Server) getThread(x *protocol.Exchange) error { return s.replyThread(x, x.Param("threadId")) }

// replyThread responds with a thread and its state.
func (s *Server) replyThread(x *protocol.Exchange, threadID string) error {
	t, err := s.Guard.Thread(x.Context(), x.Principal(), threadID)
	x.Audit(threadID, "", err)
	if err != nil {
		return err
	}
	one, err := s.thread(x.Context(), x, t)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, one)
}

// thread returns a thread with its state.
func (s *Server) thread(ctx context.Context, x *protocol.Exchange, t bus.ThreadRecord) (thread, error) {
	session, err := s.session(ctx, ref(x, t.ThreadID))
	if err != nil {
		return thread{}, err
	}
	one := newThread(session)
	states, err := s.states(ctx, ref(x, t.ThreadID), "")
	if err != nil {
		return one, err
	}
	open, err := s.openInterrupts(ctx, x.Principal(), t.ThreadID)
	if err != nil {
		return one, err
	}
	if len(states) > 0 {
		one.Values = &states[len(states)-1].Values
	}
	if len(open) > 0 {
		one.Interrupts[taskID] = open
	}
	one.Status, err = s.status(ctx, x, t, len(open) > 0)
	return one, err
}

// newThread returns what a list has of a thread.
func newThread(t historyapi.Session) thread {
	one := thread{
		ThreadID: t.ThreadID, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, Metadata: map[string]json.RawMessage{}, Status: threadIdle,
		Interrupts: map[string][]wire.Interrupt{},
	}
	if t.Record != nil && len(t.Record.Metadata) > 0 {
		_ = jsonv2.Unmarshal(t.Record.Metadata, &one.Metadata) // a session of another protocol may have other metadata
	}
	for name, value := range map[string]string{"graph_id": t.AgentID, "assistant_id": t.AgentID, "title": t.Title} {
		if quoted, err := jsonv2.Marshal(value); err == nil && value != "" {
			one.Metadata[name] = quoted
		}
	}
	return one
}

// session returns what is stored about a thread, from its record while history does not have it yet.
func (s *Server) session(ctx context.Context, thread historyapi.ThreadRef) (historyapi.Session, error) {
	found, err := s.History.Session(ctx, thread)
	if apierr.CodeOf(err) != apierr.ThreadNotFound {
		return found, err
	}
	stored, err := s.Bus.Session(ctx, thread.Tenant, thread.ThreadID)
	if errors.Is(err, bus.ErrNotFound) {
		return historyapi.Session{Thread: historyapi.Thread{ThreadID: thread.ThreadID}}, nil
	}
	if err != nil {
		return found, authz.Unavailable(err)
	}
	return created(stored.Session), nil
}

// status returns the status of a thread, which is that of its newest run.
func (s *Server) status(ctx context.Context, x *protocol.Exchange, t bus.ThreadRecord, waits bool) (string, error) {
	if waits {
		return threadInterrupted, nil
	}
	if t.RequestID == "" {
		return threadIdle, nil
	}
	r, err := s.Guard.Request(ctx, x.Principal(), t.RequestID)
	if err != nil {
		return "", err
	}
	newest, err := s.run(ctx, r)
	if err != nil {
		return "", err
	}
	switch newest.Status {
	case statusPending, statusRunning:
		return threadBusy, nil
	case statusError:
		return threadError, nil
	default:
		return threadIdle, nil
	}
}

// patchThread merges the members of an object into the metadata of a thread.
func (s *Server) patchThread(x *protocol.Exchange) error {
	var d draft
	if err := read(x, &d); err != nil {
		return err
	}
	ctx, p, threadID := x.Context(), x.Principal(), x.Param("threadId")
	if _, err := s.Guard.Thread(ctx, p, threadID); err != nil {
		return err
	}
	if err := x.CheckStorage(); err != nil {
		return err
	}
	for range attempts {
		err := s.mergeMetadata(ctx, ref(x, threadID), p.Subject, d.Metadata)
		if err == nil {
			return s.replyThread(x, threadID)
		}
		if !errors.Is(err, bus.ErrConflict) {
			return authz.Unavailable(err)
		}
	}
	return apierr.New(apierr.Unavailable, "other clients change this thread at the same time; try again")
}

// attempts bounds how often a change is retried that conflicts with another one.
const attempts = 5

func (s *Server) mergeMetadata(ctx context.Context, thread historyapi.ThreadRef, owner string, members map[string]json.RawMessage) error {
	stored, err := s.Bus.Session(ctx, thread.Tenant, thread.ThreadID)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return err
	}
	if err != nil {
		found, err := s.session(ctx, thread)
		if err != nil {
			return err
		}
		stored.Session = record.Session{
			ThreadID: thread.ThreadID, Owner: owner, AgentID: found.AgentID, Name: found.Title, CreatedAt: found.CreatedAt, UpdatedAt: found.UpdatedAt,
		}
		if found.Record != nil {
			stored.Session = *found.Record
		}
	}
	next, all := stored.Session, map[string]json.RawMessage{}
	if len(next.Metadata) > 0 {
		if err := jsonv2.Unmarshal(next.Metadata, &all); err != nil {
			return err
		}
	}
	maps.Copy(all, members)
	if next.Metadata, err = encodeMetadata(all); err != nil {
		return err
	}
	next.UpdatedAt = s.Bus.Now().UTC()
	_, err = s.Bus.UpdateSession(ctx, thread.Tenant, next, stored)
	return err
}

func (s *Server) deleteThread(x *protocol.Exchange) error {
	t, err := s.Guard.Thread(x.Context(), x.Principal(), x.Param("threadId"))
	if err != nil {
		return err
	}
	if err := s.Acceptor.Delete(x.Context(), x.Principal().Tenant, t); err != nil {
		return err
	}
	x.NoContent()
	return nil
}

// threadQuery selects threads.
type threadQuery struct {
	Metadata map[string]json.RawMessage `json:"metadata"`
	Status   string                     `json:"status"`
	Limit    int                        `json:"limit"`
	Offset   int                        `json:"offset"`
}

// Limits of a search.
const (
	defaultFound = 10
	maxFound     = 100
	searchPage   = 200
	searchPages  = 5
)

// searchThreads lists the caller's threads, the last changed first, without their values.
func (s *Server) searchThreads(x *protocol.Exchange) error {
	var q threadQuery
	if err := read(x, &q); err != nil {
		return err
	}
	wanted := q.Offset + min(cmp.Or(q.Limit, defaultFound), maxFound)
	all, cursor := []thread{}, ""
	for range searchPages {
		found, err := s.History.Sessions(x.Context(), historyapi.ThreadsQuery{
			Tenant: x.Principal().Tenant, Owner: x.Principal().Subject, Limit: searchPage, Cursor: cursor,
		})
		if err != nil {
			return err
		}
		for _, t := range found.Sessions {
			one := newThread(t)
			if len(t.OpenActions) > 0 {
				one.Status = threadInterrupted
			}
			if q.matches(one) {
				all = append(all, one)
			}
		}
		if cursor = found.NextCursor; cursor == "" || len(all) >= wanted {
			break
		}
	}
	return x.Reply(http.StatusOK, page(all, q.Offset, min(cmp.Or(q.Limit, defaultFound), maxFound)))
}

func (q threadQuery) matches(t thread) bool {
	for name, value := range q.Metadata {
		if !bytes.Equal(t.Metadata[name], value) {
			return false
		}
	}
	return q.Status == "" || q.Status == t.Status
}
