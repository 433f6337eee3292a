package protocol

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/agentlist"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
	"github.com/agentbus/agentbus/services/gateway/internal/quota"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/agentbus/agentbus/services/gateway/internal/webhook"
)

// Services are the dependencies of protocols. Every field is required, unless its comment says otherwise.
type Services struct {
	Bus      *bus.Bus
	History  historyapi.Client
	State    *rediscache.Store
	Keys     *auth.Keyring // nil = authentication is off
	Guard    *authz.Guard
	Acceptor *admission.Acceptor
	Logs     *stream.Logs
	Streamer *stream.Streamer
	Meter    *metrics.Instruments
	Config   config.Config
	Remotes  *agentlist.Agents
	Pushes   *webhook.Pushes
	Log      *slog.Logger
}

// Host applies the limits of the gateway to what the protocols do. It is safe for concurrent use.
type Host struct {
	Services
	limits   limits
	quotas   *quota.Quotas // of tenants and keys
	replays  *budget.Turns // see pacedFrames
	openings *budget.Turns // see AwaitOpening
	bodies   *budget.Turns // see Exchange.Body
}

// NewHost returns a host with the limits of the configuration.
func NewHost(s Services) *Host {
	h := &Host{Services: s, limits: newLimits(s.Config.Gateway, s.Keys != nil), openings: newOpenings()}
	h.replays = budget.NewTurns(h.limits.replays, budget.Pace{})
	h.bodies = budget.NewTurns(largeBodies, budget.Pace{})
	h.quotas = quota.New(h.limits.quotas, s.Bus, s.State, s.History)
	return h
}

// HasAgent reports whether a principal may address an agent: a configured one, or a remote agent of its tenant.
func (h *Host) HasAgent(p auth.Principal, agentID string) bool {
	if _, ok := h.Config.Agents[agentID]; ok {
		return true
	}
	_, ok := h.Remotes.Find(p.Tenant, agentID)
	return ok
}

// agent returns the configuration of an agent. For a remote agent it has only the model, and allows any other.
func (h *Host) agent(p auth.Principal, agentID string) config.Agent {
	if own, ok := h.Config.Agents[agentID]; ok {
		return own
	}
	r, remote := h.Remotes.Find(p.Tenant, agentID)
	if !remote {
		return config.Agent{}
	}
	return config.Agent{Model: r.Model, Models: []string{config.AnyModel}} // the agent-server decides
}

// open opens the log of a request that this exchange has accepted, from its first event. The status is written with the first
// event, so that a request that no runner takes can still be answered with an error. If the client disconnects before the
// end, the request is aborted where its agent is configured so.
func (h *Host) open(ctx context.Context, p auth.Principal, r admission.Receipt) (stream.Response, error) {
	request := authz.Request{Accepted: record.Accepted{Tenant: p.Tenant, RequestID: r.RequestID}}
	if r.Archived {
		var err error
		if request, err = h.Guard.Request(ctx, p, r.RequestID); err != nil {
			return stream.Response{}, err
		}
	}
	frames, err := h.Logs.Open(ctx, request, 0)
	response := stream.Response{Frames: frames, DeferHeaders: true, StartTimeout: time.Duration(h.Config.Gateway.AdmissionTimeout), KeyID: p.KeyID}
	response.Ended = func(err error) { //nolint:contextcheck // the context of the client has ended
		switch {
		case errors.Is(err, stream.ErrNotStarted):
			h.abort(p, r.RequestID, "it was not started within gateway.admissionTimeout")
		case errors.Is(err, stream.ErrDisconnected) && h.Config.Agents[r.AgentID].OnDisconnect == config.OnDisconnectAbort:
			h.abort(p, r.RequestID, "the client disconnected")
		}
	}
	return response, err
}

// abort aborts a request that has no client.
func (h *Host) abort(p auth.Principal, requestID, reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := h.Acceptor.Abort(ctx, p.Tenant, record.Abort{
		RequestID: requestID, By: p.Subject, Reason: reason, At: h.Bus.Now().UTC(),
	})
	if err != nil {
		h.Log.ErrorContext(ctx, "could not abort a request without a client", "reason", reason, telemetry.LogRequest, requestID, "error", err)
	}
}

// clientError converts an error into one for a client. The details of internal errors are logged instead.
func (h *Host) clientError(ctx context.Context, route string, err error) *apierr.Error {
	f := apierr.From(err)
	if f.Code == apierr.Internal || f.Code == apierr.Unavailable {
		h.Log.ErrorContext(ctx, "message failed", "route", route, "error", err)
	}
	return f
}

// reading is an attempt to read events.
type reading struct {
	route     string
	threadID  string
	requestID string // "" = all of the thread
}

// audit logs who reads which events, and which attempts were refused. Streaming a request that the caller has just created
// is not audited: the request's record names its owner. Without API keys there is only one principal, and the entries are for
// debugging.
func (h *Host) audit(ctx context.Context, p auth.Principal, r reading, refused error) {
	level, outcome := slog.LevelInfo, "allowed"
	if refused != nil {
		level, outcome = slog.LevelWarn, string(apierr.From(refused).Code)
	}
	if h.Keys == nil {
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{
		slog.String(telemetry.LogTenant, p.Tenant), slog.String("subject", p.Subject), slog.String(telemetry.LogKey, p.KeyID),
		slog.String("route", r.route), slog.String("outcome", outcome),
	}
	if r.threadID != "" {
		attrs = append(attrs, slog.String(telemetry.LogThread, fmt.Sprintf("%.64s", r.threadID)))
	}
	if r.requestID != "" {
		attrs = append(attrs, slog.String(telemetry.LogRequest, fmt.Sprintf("%.64s", r.requestID)))
	}
	h.Log.LogAttrs(ctx, level, "event access", attrs...)
}
