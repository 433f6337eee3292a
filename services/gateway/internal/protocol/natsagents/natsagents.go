// Package natsagents is the Synadia Agent Protocol 0.3: clients of the broker find the agents as micro services, and prompt them
// without HTTP. Its codec is in package wire; package pkg/bus/prompts has the messages.
package natsagents

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/natsagents/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// Server serves the protocol. It is safe for concurrent use.
type Server struct{ protocol.Services }

var _ protocol.Listener = (*Server)(nil)

// New returns the protocol on the services of the gateway.
func New(s protocol.Services) *Server { return &Server{s} }

// Name implements protocol.Protocol.
func (*Server) Name() string { return "natsagents" }

// Routes implements protocol.Protocol: there are none.
func (*Server) Routes() []protocol.Route { return nil }

// EncodeError implements protocol.Protocol.
func (*Server) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	return wire.Codec{}.EncodeError(e)
}

// The defaults of the configuration.
const (
	defaultSession   = "agentbus"
	defaultHeartbeat = 30 * time.Second
	defaultMaxPrompt = 512 << 10
)

// Listen implements protocol.Listener. Without an owner in the configuration no agent is served.
func (s *Server) Listen(ctx context.Context, h *protocol.Host) error {
	o := s.Config.Gateway.NATSAgents
	if o.Owner == "" {
		return nil
	}
	agents := map[string]string{}
	for name, agent := range s.Config.Agents {
		if len(o.Agents) == 0 || slices.Contains(o.Agents, name) {
			agents[name] = agent.Description
		}
	}
	return s.Bus.ServePrompts(ctx, bus.PromptOptions{
		Agents: agents, Owner: o.Owner, Session: cmp.Or(o.Session, defaultSession),
		MaxPayload: s.maxPrompt(), Heartbeat: max(o.Heartbeat.Or(defaultHeartbeat), time.Second),
	}, func(p *bus.Prompt) { s.answer(ctx, h, p) })
}

// maxPrompt is the largest prompt, in bytes.
func (s *Server) maxPrompt() int64 { return cmp.Or(s.Config.Gateway.MaxBody, defaultMaxPrompt) }

// route names the prompts in logs.
const route = "agents.prompt"

// answer answers a prompt, and waits for the end of the answer, which comes at once when listening ends.
func (s *Server) answer(listening context.Context, h *protocol.Host, p *bus.Prompt) {
	principal, err := s.authenticate(p)
	r := &run{server: s, prompt: p, caller: h.NewCaller(principal, route)}
	if err != nil {
		r.fail(listening, err)
		return
	}
	done := make(chan struct{})
	tracked := s.Streamer.Track(listening, principal.KeyID, func(ctx context.Context) {
		defer close(done)
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(listening, func() { end(stream.ErrDraining) })()
		if err := r.serve(ctx); err != nil {
			r.fail(ctx, err)
		}
	})
	if !tracked {
		r.fail(listening, apierr.New(apierr.Unavailable, "the gateway is shutting down; send the prompt again"))
		return
	}
	<-done
}

// authenticate returns the owner of a prompt: that of its API key, or that of the configuration.
func (s *Server) authenticate(p *bus.Prompt) (auth.Principal, error) {
	o := s.Config.Gateway.NATSAgents
	key := p.Header("Authorization")
	switch {
	case s.Keys == nil && o.Subject == "":
		return auth.Dev(), nil
	case key == "" && o.Subject != "":
		return auth.Principal{Tenant: o.Tenant, Subject: o.Subject, Scopes: []auth.Scope{auth.ScopeRun, auth.ScopeRead}}, nil
	case s.Keys == nil:
		return auth.Dev(), nil
	}
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", key)
	}
	plain, err := auth.Bearer(header)
	if err != nil {
		return auth.Principal{}, err
	}
	principal, err := s.Keys.Verify(plain, s.Bus.Now())
	if err == nil && !principal.May(auth.ScopeRun) {
		err = apierr.New(apierr.AuthFailed, "the API key lacks the scope %q", auth.ScopeRun)
	}
	return principal, err
}

// errLeft reports that the client no longer listens.
var errLeft = errors.New("the client has left")
