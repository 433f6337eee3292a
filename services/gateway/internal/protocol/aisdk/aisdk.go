// Package aisdk is the UI message stream of the AI SDK: chats under /ai-sdk/{agent}, streamed as server-sent events. A chat is a
// thread. Its codec is in package wire.
package aisdk

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/aisdk/wire"
)

// Server serves the protocol. It is safe for concurrent use.
type Server struct{ protocol.Services }

var _ protocol.Protocol = (*Server)(nil)

// New returns the protocol on the services of the gateway.
func New(s protocol.Services) *Server { return &Server{s} }

// Name implements protocol.Protocol.
func (*Server) Name() string { return "aisdk" }

// EncodeError implements protocol.Protocol: the body is a text, which the client shows.
func (*Server) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	return wire.Codec{}.EncodeError(e)
}

// maxBody is the limit of a body, in bytes: clients send the whole conversation with each request.
const maxBody = 4 << 20

// Routes implements protocol.Protocol.
func (s *Server) Routes() []protocol.Route {
	const path = "/ai-sdk/:agentName"
	return []protocol.Route{
		{
			Method: http.MethodPost, Path: path, Scope: auth.ScopeRun, Body: true, MaxBody: maxBody,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.postChat,
		},
		{
			Method: http.MethodGet, Path: path + "/:chatId/stream", Scope: auth.ScopeRead,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.getStream,
		},
		{Method: http.MethodPost, Path: path + "/:chatId/stop", Scope: auth.ScopeRun, Serve: s.postStop},
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

// options returns how the client wants its stream. The only parameter is include=tool_output.
func (s *Server) options(x *protocol.Exchange, agentID string) (o codec.Options, err error) {
	for _, word := range x.QueryList("include") {
		if word != protocol.IncludeToolOutput {
			return o, apierr.New(apierr.InvalidMessageFormat, "include=%.40s: use %q; a message has all other events", word, protocol.IncludeToolOutput)
		}
		if err := s.CheckToolOutput(x.Principal(), agentID); err != nil {
			return o, err
		}
		o.ToolOutput = func() bool { return true }
	}
	return o, nil
}

// clientTools returns the tools that clients of an agent run.
func (s *Server) clientTools(agentID string) []string {
	var names []string
	for _, t := range s.Config.Agents[agentID].ClientTools {
		names = append(names, t.Name)
	}
	return names
}
