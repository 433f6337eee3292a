package tarko

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/wire"
)

// prefix begins the path of all routes, except for the WebSocket and the web page.
const prefix = "/api/v1"

// maxQuery is the default size of a query's body, in bytes, as in Tarko's server: a query may contain images.
const maxQuery = 20 << 20

// Name implements protocol.Protocol.
func (*Server) Name() string { return "tarko" }

// EncodeError implements protocol.Protocol: the body has the form that Tarko's server uses for the error.
func (*Server) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	return wire.Codec{}.EncodeError(e)
}

// Routes implements protocol.Protocol.
func (s *Server) Routes() []protocol.Route {
	configured := s.Config.Gateway.Sessions.MaxBody
	queries := s.queries()
	for i := range queries {
		queries[i].MaxBody = configured
		if queries[i].Body {
			queries[i].MaxBody = cmp.Or(configured, maxQuery)
		}
	}
	routes := slices.Concat(s.system(), s.sessions(), s.files())
	for i := range routes {
		routes[i].MaxBody = configured
	}
	routes = append(routes, queries...)
	for i := range routes {
		routes[i].Path = prefix + routes[i].Path
	}
	routes = append(routes, protocol.Route{
		Method: http.MethodGet, Path: "/ws", Scope: auth.ScopeRead, Limit: protocol.StreamLimit, Untimed: true,
		BearerSubprotocol: true, MaxBody: configured, Serve: s.getSocket,
	})
	for i := range routes {
		routes[i].Cookie = s.page != nil && routes[i].Scope != ""
	}
	return append(routes, s.page.Routes()...)
}

func (s *Server) system() []protocol.Route {
	return []protocol.Route{
		get("/health", "", s.getHealth),
		get("/version", "", s.getVersion),
		get("/models", auth.ScopeRead, s.getModels),
		get("/agent/options", auth.ScopeRead, s.getOptions),
		get("/runtime-settings", auth.ScopeRead, s.getSettings),
		post("/runtime-settings", auth.ScopeRun, s.postSettings),
	}
}

func (s *Server) sessions() []protocol.Route {
	return []protocol.Route{
		get("/sessions", auth.ScopeRead, s.getSessions),
		post("/sessions/create", auth.ScopeRun, s.postCreate),
		get("/sessions/details", auth.ScopeRead, s.getDetails),
		get("/sessions/status", auth.ScopeRead, s.getStatus),
		post("/sessions/update", auth.ScopeRun, s.postUpdate),
		post("/sessions/model", auth.ScopeRun, s.postModel),
		post("/sessions/delete", auth.ScopeRun, s.postDelete),
		post("/sessions/abort", auth.ScopeRun, s.postAbort),
		post("/sessions/generate-summary", auth.ScopeRead, s.postSummary),
		list(post("/sessions/share", auth.ScopeRead, s.postShare)),
		get("/share/config", auth.ScopeRead, s.getShareConfig),
		list(get("/sessions/events", auth.ScopeRead, s.getEvents)),
		list(get("/sessions/events/latest", auth.ScopeRead, s.getLatest)),
	}
}

func (s *Server) queries() []protocol.Route {
	return []protocol.Route{
		streaming(get("/sessions/events/stream", auth.ScopeRead, s.getEventStream)),
		streaming(post("/sessions/query", auth.ScopeRun, s.postQuery)),
		streaming(post("/sessions/query/stream", auth.ScopeRun, s.postQueryStream)),
		streaming(post("/oneshot/query", auth.ScopeRun, s.postOneshot)),
		streaming(post("/oneshot/query/stream", auth.ScopeRun, s.postOneshotStream)),
	}
}

func (s *Server) files() []protocol.Route {
	return []protocol.Route{
		get("/workspace/files", auth.ScopeRead, s.getFiles),
		get("/workspace/search", auth.ScopeRead, s.getSearch),
		post("/workspace/validate", auth.ScopeRead, s.postValidate),
		get("/sessions/workspace/files", auth.ScopeRead, s.getFiles), // the paths that the published frontend uses
		get("/sessions/workspace/search", auth.ScopeRead, s.getSearch),
		post("/sessions/workspace/validate", auth.ScopeRead, s.postValidate),
	}
}

func get(path string, scope auth.Scope, serve func(*protocol.Exchange) error) protocol.Route {
	return protocol.Route{Method: http.MethodGet, Path: path, Scope: scope, Serve: serve}
}

func post(path string, scope auth.Scope, serve func(*protocol.Exchange) error) protocol.Route {
	return protocol.Route{Method: http.MethodPost, Path: path, Scope: scope, Body: true, Serve: serve}
}

// list makes a route count against the limit of lists.
func list(r protocol.Route) protocol.Route {
	r.Limit = protocol.ListLimit
	return r
}

// streaming makes a route last as long as a stream, and count against the limit of streams.
func streaming(r protocol.Route) protocol.Route {
	r.Limit, r.Untimed = protocol.StreamLimit, true
	return r
}
