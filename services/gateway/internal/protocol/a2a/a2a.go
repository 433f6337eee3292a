// Package a2a is A2A 1.0: each agent is an A2A agent under /a2a/{agent}, with the bindings JSON-RPC and HTTP+JSON. Its codec is
// in package wire.
//
// A task is a request, together with the requests that answer the actions for which it waits. A context is a thread.
package a2a

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a/wire"
)

// Server serves the protocol. It is safe for concurrent use.
type Server struct{ protocol.Services }

var _ protocol.Protocol = (*Server)(nil)

// New returns the protocol on the services of the gateway.
func New(s protocol.Services) *Server { return &Server{s} }

// Name implements protocol.Protocol.
func (*Server) Name() string { return "a2a" }

// EncodeError implements protocol.Protocol.
func (*Server) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	return wire.EncodeError(e)
}

// maxBody is the limit of a body, in bytes: files come with the message.
const maxBody = 4 << 20

// Routes implements protocol.Protocol. The router has no colons within a segment, so one route serves a task and the verbs after
// its id.
func (s *Server) Routes() []protocol.Route {
	const path = "/a2a/:agentName"
	const task, configs = path + "/tasks/:taskId", path + "/tasks/:taskId/pushNotificationConfigs"
	stream := func(method, path string, serve func(call) error) protocol.Route {
		return protocol.Route{
			Method: method, Path: path, Scope: auth.ScopeRead, Limit: protocol.StreamLimit, Untimed: true, Serve: s.rest(serve),
		}
	}
	value := func(method, path string, scope auth.Scope, serve func(call) error) protocol.Route {
		return protocol.Route{Method: method, Path: path, Scope: scope, Serve: s.rest(serve)}
	}
	return []protocol.Route{
		{Method: http.MethodGet, Path: path + "/.well-known/agent-card.json", Serve: s.getCard},
		{
			Method: http.MethodPost, Path: path, Scope: auth.ScopeRead, Body: true, MaxBody: maxBody,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.postCall,
		},
		{
			Method: http.MethodPost, Path: path + "/:operation", Scope: auth.ScopeRun, Body: true, MaxBody: maxBody,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.rest(s.postMessage),
		},
		stream(http.MethodGet, task, s.getTask),
		stream(http.MethodPost, task, s.postTask),
		{Method: http.MethodGet, Path: path + "/tasks", Scope: auth.ScopeRead, Limit: protocol.ListLimit, Serve: s.rest(s.listTasks)},
		value(http.MethodGet, path+"/extendedAgentCard", auth.ScopeRead, s.extendedCard),
		value(http.MethodGet, configs, auth.ScopeRead, s.listPushes),
		{Method: http.MethodPost, Path: configs, Scope: auth.ScopeRun, Body: true, Serve: s.rest(s.postPush)},
		value(http.MethodGet, configs+"/:configId", auth.ScopeRead, s.getPush),
		value(http.MethodDelete, configs+"/:configId", auth.ScopeRun, s.deletePush),
	}
}

// checkAgent returns an error unless the caller may address the agent of the path.
func checkAgent(x *protocol.Exchange) (agentID string, err error) {
	agentID = x.Param("agentName")
	if !x.HasAgent(agentID) {
		return "", apierr.New(apierr.AgentNotFound, "there is no agent %.64q; GET /v1/agents lists them", agentID)
	}
	return agentID, nil
}

// mayRun returns an error unless the caller has the scope run, for routes that serve several operations.
func mayRun(x *protocol.Exchange) error {
	if !x.Principal().May(auth.ScopeRun) {
		return apierr.New(apierr.AuthFailed, "the API key lacks the scope %q", auth.ScopeRun)
	}
	return nil
}
