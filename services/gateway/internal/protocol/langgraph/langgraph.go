// Package langgraph is a subset of the LangGraph Agent Server under /langgraph: agents are its assistants, requests its runs.
// The codec is in package wire.
package langgraph

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/langgraph/wire"
)

// Server serves the protocol. It is safe for concurrent use.
type Server struct{ protocol.Services }

var _ protocol.Protocol = (*Server)(nil)

// New returns the protocol on the services of the gateway.
func New(s protocol.Services) *Server { return &Server{s} }

// Name implements protocol.Protocol.
func (*Server) Name() string { return "langgraph" }

// EncodeError implements protocol.Protocol.
func (*Server) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	return wire.Codec{}.EncodeError(e)
}

const (
	prefix = "/langgraph"
	// maxBody is the limit of a body, in bytes: clients may send a whole conversation.
	maxBody = 4 << 20
)

// Routes implements protocol.Protocol.
func (s *Server) Routes() []protocol.Route {
	const thread, run = "/threads/:threadId", "/threads/:threadId/runs/:requestId"
	return []protocol.Route{
		post("/assistants/search", auth.ScopeRead, s.searchAssistants),
		post("/assistants/count", auth.ScopeRead, s.countAssistants),
		get("/assistants/:assistantId", s.getAssistant),
		get("/assistants/:assistantId/schemas", s.getSchemas),
		get("/assistants/:assistantId/graph", s.getGraph),

		post("/threads", auth.ScopeRun, s.createThread),
		limited(protocol.ListLimit, post("/threads/search", auth.ScopeRead, s.searchThreads)),
		get(thread, s.getThread),
		route(http.MethodDelete, thread, auth.ScopeRun, s.deleteThread),
		route(http.MethodPatch, thread, auth.ScopeRun, s.patchThread),
		limited(protocol.ListLimit, get(thread+"/state", s.getState)),
		limited(protocol.ListLimit, post(thread+"/history", auth.ScopeRead, s.getHistory)),

		stream(post(thread+"/runs/stream", auth.ScopeRun, s.streamRun)),
		stream(post(thread+"/runs/wait", auth.ScopeRun, s.waitRun)),
		post(thread+"/runs", auth.ScopeRun, s.createRun),
		stream(post("/runs/stream", auth.ScopeRun, s.streamRun)),
		stream(post("/runs/wait", auth.ScopeRun, s.waitRun)),
		post("/runs", auth.ScopeRun, s.createRun),
		get(thread+"/runs", s.listRuns),
		get(run, s.getRun),
		stream(get(run+"/stream", s.joinStream)),
		stream(get(run+"/join", s.joinRun)),
		withoutBody(post(run+"/cancel", auth.ScopeRun, s.cancelRun)),

		stream(get(thread+"/stream", s.joinThread)),
		stream(post(thread+"/stream/events", auth.ScopeRead, s.streamEvents)),
		post(thread+"/commands", auth.ScopeRun, s.command),
	}
}

func route(method, path string, scope auth.Scope, serve func(*protocol.Exchange) error) protocol.Route {
	r := protocol.Route{Method: method, Path: prefix + path, Scope: scope, Serve: serve}
	if method == http.MethodPost || method == http.MethodPatch {
		r.Body, r.MaxBody = true, maxBody
	}
	return r
}

func get(path string, serve func(*protocol.Exchange) error) protocol.Route {
	return route(http.MethodGet, path, auth.ScopeRead, serve)
}

func post(path string, scope auth.Scope, serve func(*protocol.Exchange) error) protocol.Route {
	return route(http.MethodPost, path, scope, serve)
}

func withoutBody(r protocol.Route) protocol.Route {
	r.Body, r.MaxBody = false, 0
	return r
}

func limited(l protocol.Limit, r protocol.Route) protocol.Route {
	r.Limit = l
	return r
}

// stream is a route that may last as long as a run.
func stream(r protocol.Route) protocol.Route {
	r.Limit, r.Untimed = protocol.StreamLimit, true
	return r
}

// read decodes the body into v. Without a body, v keeps its value.
func read(x *protocol.Exchange, v any) error {
	body, err := x.Body()
	if err != nil || len(body) == 0 {
		return err
	}
	return wire.Decode(body, v)
}

func noAssistant(name string) error {
	return apierr.New(apierr.AgentNotFound, "there is no assistant %.64q: assistants are agents; POST /langgraph/assistants/search lists them", name)
}
