package api

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/gin-gonic/gin"
)

// reading is an attempt to read events.
type reading struct {
	route     string
	threadID  string
	requestID string // "" = all of the thread
}

// audit tells operators who reads which events, and who is not let (S0, Security: audit event access patterns). It is told
// when the reading begins. What somebody is sent of a request of their own is not told: the request's record has its owner.
func (a *API) audit(ctx context.Context, p auth.Principal, r reading, refused error) {
	level, outcome := slog.LevelInfo, "allowed"
	if refused != nil {
		level, outcome = slog.LevelWarn, string(apierr.From(refused).Code)
	}
	said := []slog.Attr{
		slog.String("tenant", p.Tenant), slog.String("subject", p.Subject), slog.String("key", p.KeyID),
		slog.String("route", r.route), slog.String("outcome", outcome),
	}
	if r.threadID != "" {
		said = append(said, slog.String("session", fmt.Sprintf("%.64s", r.threadID)))
	}
	if r.requestID != "" {
		said = append(said, slog.String("request", fmt.Sprintf("%.64s", r.requestID)))
	}
	a.Log.LogAttrs(ctx, level, "event access", said...)
}

// readThread is the thread whose events a call is about to read.
func (a *API) readThread(c *gin.Context) (bus.ThreadRecord, historyapi.ThreadRef, error) {
	t, ref, err := a.thread(c)
	a.audit(c.Request.Context(), principal(c), reading{route: c.FullPath(), threadID: c.Param("threadId")}, err)
	return t, ref, err
}

// readRequest is the request whose events a call is about to read.
func (a *API) readRequest(c *gin.Context) (authz.Request, error) {
	r, err := a.request(c)
	a.audit(c.Request.Context(), principal(c), reading{c.FullPath(), r.ThreadID, c.Param("requestId")}, err)
	return r, err
}

// Audit tells operators that the caller is about to read a thread's events, or is not let.
func (c *Call) Audit(threadID string, refused error) {
	c.api.audit(c.Context(), c.Principal(), reading{route: c.gin.FullPath(), threadID: threadID}, refused)
}

// Audit tells operators that the client is about to read a thread's events, or is not let.
func (s *Socket) Audit(ctx context.Context, threadID string, refused error) {
	s.api.audit(ctx, s.principal, reading{route: s.route, threadID: threadID}, refused)
}
