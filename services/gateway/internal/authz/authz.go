// Package authz finds requests and threads, and decides who may see them. Every route and every reconnect uses it.
// Requests and threads of another tenant do not exist (404); those of another owner in the same tenant are denied
// (403). Knowing an id gives no access.
package authz

import (
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
)

// Guard finds the requests and threads that a principal may see. It is safe for concurrent use.
type Guard struct {
	bus     *bus.Bus
	history historyapi.Client
}

// NewGuard returns a guard that reads the bus and, for data that has expired there, history.
func NewGuard(b *bus.Bus, history historyapi.Client) *Guard { return &Guard{b, history} }

// Request is a request that the principal may see.
type Request struct {
	record.Accepted
	Archived bool           // the log has expired from the bus and is in history
	Known    bus.ResumeHint // of its log
}

// Log names the request's log.
func (r Request) Log() bus.LogID { return bus.LogID{Tenant: r.Tenant, RequestID: r.RequestID} }

// Thread returns the newest record of a thread, or apierr.ThreadNotFound, or apierr.ThreadAccessDenied. A record that
// only history has gets sequence 0. The record of a session without requests gets index -1 as well, and an empty
// request id.
func (g *Guard) Thread(ctx context.Context, p auth.Principal, threadID string) (bus.ThreadRecord, error) {
	if !id.Valid(threadID) {
		return bus.ThreadRecord{}, threadNotFound()
	}
	t, err := g.bus.Thread(ctx, p.Tenant, threadID)
	if errors.Is(err, bus.ErrNotFound) {
		t, err = g.threadWithoutRecord(ctx, p.Tenant, threadID)
	}
	if err != nil {
		return bus.ThreadRecord{}, Unavailable(err)
	}
	if t.Deleted {
		return bus.ThreadRecord{}, threadNotFound()
	}
	if t.Owner != p.Subject {
		return bus.ThreadRecord{}, apierr.New(apierr.ThreadAccessDenied, "the thread belongs to another user")
	}
	return t, nil
}

// threadWithoutRecord finds a thread without a record on the bus: a new session, or a thread that only history has.
func (g *Guard) threadWithoutRecord(ctx context.Context, tenant, threadID string) (bus.ThreadRecord, error) {
	s, err := g.bus.Session(ctx, tenant, threadID)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return bus.ThreadRecord{}, err
	}
	if err != nil || !s.Created() {
		return g.archivedThread(ctx, tenant, threadID)
	}
	return bus.ThreadRecord{Thread: record.Thread{
		ThreadID: s.ThreadID, Owner: s.Owner, AgentID: s.AgentID, Index: -1, At: s.UpdatedAt,
	}}, nil
}

func (g *Guard) archivedThread(ctx context.Context, tenant, threadID string) (bus.ThreadRecord, error) {
	t, err := g.history.Thread(ctx, historyapi.ThreadRef{Tenant: tenant, ThreadID: threadID})
	if err != nil {
		return bus.ThreadRecord{}, err
	}
	return bus.ThreadRecord{Thread: record.Thread{
		ThreadID: t.ThreadID, Owner: t.Owner, AgentID: t.AgentID,
		RequestID: t.LastRequestID, Index: t.Requests - 1, At: t.UpdatedAt,
	}}, nil
}

// Request returns a request that p may see, or apierr.RequestNotFound, or apierr.ThreadAccessDenied. Requests without a
// thread are not found.
func (g *Guard) Request(ctx context.Context, p auth.Principal, requestID string) (Request, error) {
	if !id.Valid(requestID) {
		return Request{}, requestNotFound()
	}
	r, err := g.find(ctx, p.Tenant, requestID)
	if err != nil {
		return Request{}, Unavailable(err)
	}
	if r.Owner != p.Subject {
		return Request{}, apierr.New(apierr.ThreadAccessDenied, "the request belongs to a thread of another user")
	}
	return r, nil
}

func (g *Guard) find(ctx context.Context, tenant, requestID string) (Request, error) {
	a, err := g.bus.AcceptedRecord(ctx, bus.LogID{Tenant: tenant, RequestID: requestID})
	if errors.Is(err, bus.ErrNotFound) {
		return g.archivedRequest(ctx, tenant, requestID)
	}
	if err != nil {
		return Request{}, err
	}
	t, err := g.bus.Thread(ctx, tenant, a.ThreadID)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return Request{}, err
	}
	if t.Deleted {
		return Request{}, requestNotFound()
	}
	return Request{Accepted: a.Accepted, Known: bus.ResumeHint{After: a.Sequence}}, nil
}

// archivedRequest finds a request without an accept record on the bus. Its log may be there all the same, if the
// request ran longer than records are kept, or started again after the stream was lost.
func (g *Guard) archivedRequest(ctx context.Context, tenant, requestID string) (Request, error) {
	r, err := g.history.Request(ctx, historyapi.RequestRef{Tenant: tenant, RequestID: requestID})
	if err != nil {
		return Request{}, err
	}
	_, err = g.bus.Last(ctx, bus.LogID{Tenant: tenant, RequestID: requestID})
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return Request{}, err
	}
	return Request{Archived: err != nil, Accepted: record.Accepted{
		Tenant: tenant, RequestID: r.RequestID, ThreadID: r.ThreadID, AgentID: r.AgentID, Owner: r.Owner, At: r.CreatedAt,
	}}, nil
}

// Unavailable returns the API error for an error of the bus. API errors and the cancellation of the client's context
// are returned unchanged.
func Unavailable(err error) error {
	if _, ok := errors.AsType[*apierr.Error](err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, bus.ErrTooLarge) {
		return apierr.Wrap(err, apierr.MessageTooLarge, "the request is too large to be stored; send large files by url")
	}
	return apierr.Wrap(err, apierr.Unavailable, "the message bus does not answer; try again")
}

func threadNotFound() error { return apierr.New(apierr.ThreadNotFound, "the thread does not exist") }
func requestNotFound() error {
	return apierr.New(apierr.RequestNotFound, "the request does not exist, or has expired")
}
