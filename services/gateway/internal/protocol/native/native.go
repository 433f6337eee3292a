// Package native is the agent event protocol: requests, threads and their events under /v1, streamed as server-sent events,
// as JSON lines or on a WebSocket. Its codec is in package wire.
package native

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native/wire"
)

// Server serves the protocol. It is safe for concurrent use.
type Server struct {
	protocol.Services
	codec codec.Codec
}

var _ protocol.Protocol = (*Server)(nil)

// New returns the protocol on the services of the gateway.
func New(s protocol.Services) *Server { return &Server{s, wire.Codec{}} }

// Name implements protocol.Protocol.
func (*Server) Name() string { return "native" }

// EncodeError implements protocol.Protocol: the body is an error event.
func (s *Server) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	return s.codec.EncodeError(e)
}

// Routes implements protocol.Protocol.
func (s *Server) Routes() []protocol.Route {
	return []protocol.Route{
		limited(protocol.StreamLimit, untimed(post("/agents/:agentName/stream", s.postStream))),
		untimed(post("/agents/:agentName/requests", s.postRequest)),
		untimed(post("/requests/:requestId/steer", s.postSteer)),
		untimed(post("/requests/:requestId/follow-up", s.postFollowUp)),
		post("/requests/:requestId/abort", s.postAbort),
		{Method: http.MethodDelete, Path: prefix + "/threads/:threadId", Scope: auth.ScopeRun, Serve: s.deleteThread},

		limited(protocol.StreamLimit, untimed(get("/requests/:requestId/stream", s.getRequestStream))),
		limited(protocol.StreamLimit, untimed(get("/threads/:threadId/stream", s.getThreadStream))),
		bearerSubprotocol(limited(protocol.StreamLimit, untimed(get("/ws", s.getSocket)))),
		get("/agents", s.getAgents),
		get("/requests/:requestId", s.getRequest),
		limited(protocol.ListLimit, get("/actions", s.getActions)),
		get("/threads", s.getThreads),
		get("/threads/:threadId", s.getThread),
		limited(protocol.ListLimit, get("/threads/:threadId/messages", s.getMessages)),
		limited(protocol.ListLimit, get("/threads/:threadId/events", s.getEvents)),
		withCookie(limited(protocol.StreamLimit, get("/threads/:threadId/objects/:objectId", s.getObject))),
	}
}

// prefix begins the path of each route.
const prefix = "/v1"

// post returns a route that reads a body.
func post(path string, serve func(*protocol.Exchange) error) protocol.Route {
	return protocol.Route{Method: http.MethodPost, Path: prefix + path, Scope: auth.ScopeRun, Body: true, Serve: serve}
}

func get(path string, serve func(*protocol.Exchange) error) protocol.Route {
	return protocol.Route{Method: http.MethodGet, Path: prefix + path, Scope: auth.ScopeRead, Serve: serve}
}

// withCookie accepts the cookie of a login: web pages show pictures by their address.
func withCookie(r protocol.Route) protocol.Route {
	r.Cookie = true
	return r
}

// bearerSubprotocol accepts the API key as a subprotocol: web pages cannot set the headers of a WebSocket.
func bearerSubprotocol(r protocol.Route) protocol.Route {
	r.BearerSubprotocol = true
	return r
}

func limited(l protocol.Limit, r protocol.Route) protocol.Route {
	r.Limit = l
	return r
}

func untimed(r protocol.Route) protocol.Route {
	r.Untimed = true
	return r
}
