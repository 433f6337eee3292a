// Package authz finds requests and threads, and says who may see them. Every route and every reconnect asks here:
// another tenant's do not exist (404), another owner's in the same tenant are denied (403). Ids carry no authority.
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

// Guard finds what a principal may see. It is safe for concurrent use.
type Guard struct {
	bus     *bus.Bus
	history historyapi.Client
}

// NewGuard returns a guard that looks on the bus first, and in history for what the bus has forgotten.
func NewGuard(b *bus.Bus, history historyapi.Client) *Guard { return &Guard{b, history} }

// Request is a request that the principal may see.
type Request struct {
	record.Accepted
	Past  bool           // the bus has forgotten its log; history knows it
	Known bus.ResumeHint // of its log
}

// Log names the request's log.
func (r Request) Log() bus.LogID { return bus.LogID{Tenant: r.Tenant, RequestID: r.RequestID} }

// Thread returns the newest record of a thread, or apierr.ThreadNotFound, or apierr.ThreadAccessDenied. A record that
// only history knows has sequence 0; one of a session without requests has index -1 beside that, and no request.
func (g *Guard) Thread(ctx context.Context, p auth.Principal, threadID string) (bus.ThreadRecord, error) {
	if !id.Valid(threadID) {
		return bus.ThreadRecord{}, noThread()
	}
	t, err := g.bus.Thread(ctx, p.Tenant, threadID)
	if errors.Is(err, bus.ErrNotFound) {
		t, err = g.unrecorded(ctx, p.Tenant, threadID)
	}
	if err != nil {
		return bus.ThreadRecord{}, Unavailable(err)
	}
	if t.Deleted {
		return bus.ThreadRecord{}, noThread()
	}
	if t.Owner != p.Subject {
		return bus.ThreadRecord{}, apierr.New(apierr.ThreadAccessDenied, "the thread belongs to somebody else")
	}
	return t, nil
}

// unrecorded finds a thread of which the bus has no record: a session that has just been created, or one that history
// knows.
func (g *Guard) unrecorded(ctx context.Context, tenant, threadID string) (bus.ThreadRecord, error) {
	s, err := g.bus.Session(ctx, tenant, threadID)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return bus.ThreadRecord{}, err
	}
	if err != nil || !s.Created() {
		return g.pastThread(ctx, tenant, threadID)
	}
	return bus.ThreadRecord{Thread: record.Thread{
		ThreadID: s.ThreadID, Owner: s.Owner, AgentID: s.AgentID, Index: -1, At: s.UpdatedAt,
	}}, nil
}

func (g *Guard) pastThread(ctx context.Context, tenant, threadID string) (bus.ThreadRecord, error) {
	t, err := g.history.Thread(ctx, historyapi.ThreadRef{Tenant: tenant, ThreadID: threadID})
	if err != nil {
		return bus.ThreadRecord{}, err
	}
	return bus.ThreadRecord{Thread: record.Thread{
		ThreadID: t.ThreadID, Owner: t.Owner, AgentID: t.AgentID,
		RequestID: t.LastRequestID, Index: t.Requests - 1, At: t.UpdatedAt,
	}}, nil
}

// Request returns a request, or apierr.RequestNotFound, or apierr.ThreadAccessDenied. The requests of a deleted thread
// are not found.
func (g *Guard) Request(ctx context.Context, p auth.Principal, requestID string) (Request, error) {
	if !id.Valid(requestID) {
		return Request{}, noRequest()
	}
	r, err := g.find(ctx, p.Tenant, requestID)
	if err != nil {
		return Request{}, Unavailable(err)
	}
	if r.Owner != p.Subject {
		return Request{}, apierr.New(apierr.ThreadAccessDenied, "the request belongs to somebody else's thread")
	}
	return r, nil
}

func (g *Guard) find(ctx context.Context, tenant, requestID string) (Request, error) {
	a, err := g.bus.AcceptedRecord(ctx, bus.LogID{Tenant: tenant, RequestID: requestID})
	if errors.Is(err, bus.ErrNotFound) {
		return g.pastRequest(ctx, tenant, requestID)
	}
	if err != nil {
		return Request{}, err
	}
	t, err := g.bus.Thread(ctx, tenant, a.ThreadID)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return Request{}, err
	}
	if t.Deleted {
		return Request{}, noRequest()
	}
	return Request{Accepted: a.Accepted, Known: bus.ResumeHint{After: a.Sequence}}, nil
}

// pastRequest finds a request whose record the bus does not have. Its log may be there all the same: one that lasted
// longer than records are kept, or one that began again after the stream was lost.
func (g *Guard) pastRequest(ctx context.Context, tenant, requestID string) (Request, error) {
	r, err := g.history.Request(ctx, historyapi.RequestRef{Tenant: tenant, RequestID: requestID})
	if err != nil {
		return Request{}, err
	}
	_, err = g.bus.Last(ctx, bus.LogID{Tenant: tenant, RequestID: requestID})
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return Request{}, err
	}
	return Request{Past: err != nil, Accepted: record.Accepted{
		Tenant: tenant, RequestID: r.RequestID, ThreadID: r.ThreadID, AgentID: r.AgentID, Owner: r.Owner, At: r.CreatedAt,
	}}, nil
}

// Unavailable is what a client is told when the bus did not answer. Faults stay what they are, and so does the end of
// the client's own patience.
func Unavailable(err error) error {
	if _, ok := errors.AsType[*apierr.Error](err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, bus.ErrTooLarge) {
		return apierr.Wrap(err, apierr.MessageTooLarge, "the request is too large to be stored; send large files by url")
	}
	return apierr.Wrap(err, apierr.Unavailable, "the message bus does not answer; try again")
}

func noThread() error { return apierr.New(apierr.ThreadNotFound, "there is no such thread") }
func noRequest() error {
	return apierr.New(apierr.RequestNotFound, "there is no such request; it may be older than what is kept")
}
