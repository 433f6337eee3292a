package tarko

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/api"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// prefix is where all routes begin, but for the WebSocket (S0, WebSocket Protocol).
const prefix = "/api/v1"

// Mount lists the routes. Their errors are told by the dialect.
func (s *Server) Mount(d codec.Codec) api.Mount {
	get, post := endpoint(http.MethodGet), endpoint(http.MethodPost)
	return api.Mount{Dialect: d, MaxBody: s.Config.Gateway.Sessions.MaxBody, Endpoints: []api.Endpoint{
		get("/health", "", s.getHealth),
		get("/version", "", s.getVersion),
		get("/models", auth.ScopeRead, s.getModels),
		get("/agent/options", auth.ScopeRead, s.getOptions),
		get("/runtime-settings", auth.ScopeRead, s.getSettings),
		post("/runtime-settings", auth.ScopeRun, s.postSettings),

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

		long(get("/sessions/events/stream", auth.ScopeRead, s.getEventStream)),
		long(post("/sessions/query", auth.ScopeRun, s.postQuery)),
		long(post("/sessions/query/stream", auth.ScopeRun, s.postQueryStream)),
		long(post("/oneshot/query", auth.ScopeRun, s.postOneshot)),
		long(post("/oneshot/query/stream", auth.ScopeRun, s.postOneshotStream)),
		{Route: api.Route{Method: http.MethodGet, Path: "/ws"}, Scope: auth.ScopeRead, Long: true, Page: true, Serve: s.getSocket},

		get("/workspace/files", auth.ScopeRead, s.getFiles),
		get("/workspace/search", auth.ScopeRead, s.getSearch),
		post("/workspace/validate", auth.ScopeRead, s.postValidate),
		get("/sessions/workspace/files", auth.ScopeRead, s.getFiles), // where the published frontend looks
		get("/sessions/workspace/search", auth.ScopeRead, s.getSearch),
		post("/sessions/workspace/validate", auth.ScopeRead, s.postValidate),
	}}
}

func endpoint(method string) func(string, auth.Scope, func(*api.Call) error) api.Endpoint {
	return func(path string, scope auth.Scope, serve func(*api.Call) error) api.Endpoint {
		return api.Endpoint{Route: api.Route{Method: method, Path: prefix + path}, Scope: scope, Serve: serve}
	}
}

// list bounds how many calls of an endpoint run at one time.
func list(e api.Endpoint) api.Endpoint {
	e.List = true
	return e
}

// long lets an endpoint last as long as a stream.
func long(e api.Endpoint) api.Endpoint {
	e.Long = true
	return e
}
