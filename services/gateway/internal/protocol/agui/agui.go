// Package agui is AG-UI 1.0: runs of an agent under /agui/{agent}, streamed as server-sent events. Its codec is in package
// wire.
package agui

import (
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/agui/wire"
)

// Server serves the protocol. It is safe for concurrent use.
type Server struct{ protocol.Services }

var _ protocol.Protocol = (*Server)(nil)

// New returns the protocol on the services of the gateway.
func New(s protocol.Services) *Server { return &Server{s} }

// Name implements protocol.Protocol.
func (*Server) Name() string { return "agui" }

// EncodeError implements protocol.Protocol: the body is a RUN_ERROR event.
func (*Server) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	return wire.Codec{}.EncodeError(e)
}

// maxBody is the limit of a body, in bytes: clients send the whole conversation with each run.
const maxBody = 4 << 20

// Routes implements protocol.Protocol.
func (s *Server) Routes() []protocol.Route {
	const path = "/agui/:agentName"
	return []protocol.Route{
		{
			Method: http.MethodPost, Path: path, Scope: auth.ScopeRun, Body: true, MaxBody: maxBody,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.postRun,
		},
		{
			Method: http.MethodPost, Path: path + "/connect", Scope: auth.ScopeRead, Body: true, MaxBody: maxBody,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.postConnect,
		},
		{Method: http.MethodPost, Path: path + "/cancel", Scope: auth.ScopeRun, Body: true, MaxBody: maxBody, Serve: s.postCancel},
		{Method: http.MethodGet, Path: path + "/info", Scope: auth.ScopeRead, Serve: s.getInfo},
	}
}

// agent returns the agent of the path, if the caller may address it.
func agent(x *protocol.Exchange) (string, error) {
	agentID := x.Param("agentName")
	if !x.HasAgent(agentID) {
		return "", apierr.New(apierr.AgentNotFound, "there is no agent %.64q; GET /v1/agents lists them", agentID)
	}
	return agentID, nil
}

// toolOutput returns what lets the client read the output of tools, if it asks for it by include=tool_output; nil = it does not.
func (s *Server) toolOutput(x *protocol.Exchange, agentID string) (func() bool, error) {
	if !slices.Contains(x.QueryList("include"), protocol.IncludeToolOutput) {
		return nil, nil //nolint:nilnil // as Options.ToolOutput
	}
	return func() bool { return true }, s.CheckToolOutput(x.Principal(), agentID)
}

// read returns the agent of the path, and the decoded body.
func read(x *protocol.Exchange) (agentID string, in wire.Input, body []byte, err error) {
	if agentID, err = agent(x); err != nil {
		return agentID, in, nil, err
	}
	if body, err = x.Body(); err != nil {
		return agentID, in, nil, err
	}
	in, err = wire.DecodeInput(body)
	return agentID, in, body, err
}
