// Package api is the gateway's HTTP: routes, who may call them, how much, and what goes wrong in words. It is the only
// package that knows gin.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/limit"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/agentlist"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
	"github.com/agentbus/agentbus/services/gateway/internal/quota"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
)

// Speaker is a dialect under the path that its routes begin with.
type Speaker struct {
	Prefix  string // "/v1"
	Dialect codec.Codec
}

// Deps are what the API works with. Every member is needed, except where it says otherwise.
type Deps struct {
	Bus      *bus.Bus
	History  historyapi.Client
	State    *rediscache.Store
	Keys     *auth.Keyring // nil = authentication is off
	Guard    *authz.Guard
	Desk     *admission.Acceptor
	Logs     *stream.Logs
	Streamer *stream.Streamer
	Meter    *metrics.Instruments
	Config   config.Config
	Remotes  *agentlist.Agents
	Speakers []Speaker    // the first one tells the errors of routes that no dialect owns
	Mounts   []Mount      // routes that others answer
	Metrics  http.Handler // nil = not served here
	OpenAPI  []byte
	Log      *slog.Logger
}

// API answers HTTP requests: it is the handler of everything that the gateway serves.
type API struct {
	Deps
	origins    *origins
	limits     limits
	quotas     *quota.Quotas          // of tenants and keys
	streams    *limit.Quota           // of a principal
	lists      *limit.Quota           // the same
	listPlaces chan struct{}          // see oneList
	replays    *budget.Budget         // see paced
	dialects   map[string]codec.Codec // by path, of routes that do not speak the first one
	engine     *gin.Engine
	traced     http.Handler // the engine
}

// New returns an API. An origin that is none is an error.
func New(d Deps) (*API, error) {
	o, err := newOrigins(d.Config.Gateway.CORS)
	if err != nil {
		return nil, err
	}
	a := &API{Deps: d, origins: o, limits: newLimits(d.Config.Gateway, d.Keys != nil), dialects: map[string]codec.Codec{}}
	a.streams, a.replays = limit.NewQuota(a.limits.streams), budget.NewTurns(a.limits.replays)
	a.quotas = quota.New(a.limits.quotas, d.Bus, d.State, d.History)
	a.lists, a.listPlaces = limit.NewQuota(a.limits.lists), make(chan struct{}, listPlaces)
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.RedirectTrailingSlash = false
	engine.HandleMethodNotAllowed = true
	if err := engine.SetTrustedProxies(nil); err != nil {
		return nil, err
	}
	engine.Use(a.observe, a.recover, a.deadlines, a.secure, a.cors, a.admit, a.text)
	engine.NoRoute(a.noRoute)
	engine.NoMethod(a.noMethod)
	a.routes(engine)
	isPublic := func(*http.Request) bool { return !d.Config.Gateway.TrustTraceparent }
	a.engine, a.traced = engine, otelhttp.NewHandler(engine, "gateway",
		otelhttp.WithFilter(isTraced), otelhttp.WithPublicEndpointFn(isPublic))
	return a, nil
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.traced.ServeHTTP(w, r) }

// Route is a method and a path whose variable parts begin with ':'.
type Route struct{ Method, Path string }

// Routes lists what is served.
func (a *API) Routes() []Route {
	var all []Route
	for _, r := range a.engine.Routes() {
		all = append(all, Route{r.Method, r.Path})
	}
	return all
}

func (a *API) routes(engine *gin.Engine) {
	engine.GET("/healthz", healthy)
	engine.GET("/readyz", a.ready)
	engine.GET("/openapi.yaml", func(c *gin.Context) { c.Data(http.StatusOK, "application/yaml", a.OpenAPI) })
	if a.Metrics != nil {
		engine.GET("/metrics", gin.WrapH(a.Metrics))
	}
	for _, s := range a.Speakers {
		run := engine.Group(s.Prefix, a.speak(s.Dialect), a.authenticate, a.limit, a.need(auth.ScopeRun))
		run.POST("/agents/:agentName/stream", a.oneStream, a.handle(a.postStream))
		run.POST("/agents/:agentName/requests", a.handle(a.postRequest))
		run.POST("/requests/:requestId/steer", a.handle(a.postSteer))
		run.POST("/requests/:requestId/follow-up", a.handle(a.postFollowUp))
		read := engine.Group(s.Prefix, a.speak(s.Dialect), a.authenticate, a.limit, a.need(auth.ScopeRead), a.drop, a.oneStream)
		read.GET("/requests/:requestId/stream", a.handle(a.getRequestStream))
		read.GET("/threads/:threadId/stream", a.handle(a.getThreadStream))
	}
	for _, m := range a.Mounts {
		for _, e := range m.Endpoints {
			a.dialects[e.Path] = m.Dialect
		}
		a.mount(engine, m)
	}
	run := engine.Group("/v1", a.authenticate, a.limit, a.need(auth.ScopeRun))
	run.POST("/requests/:requestId/abort", a.drop, a.quick(a.abort))
	run.DELETE("/threads/:threadId", a.drop, a.quick(a.deleteThread))
	read := engine.Group("/v1", a.authenticate, a.limit, a.need(auth.ScopeRead), a.drop)
	read.GET("/agents", a.quick(a.getAgents))
	read.GET("/requests/:requestId", a.quick(a.getRequest))
	read.GET("/threads", a.quick(a.getThreads))
	read.GET("/threads/:threadId", a.quick(a.getThread))
	read.GET("/threads/:threadId/messages", a.oneList, a.quick(a.getMessages))
	read.GET("/threads/:threadId/events", a.oneList, a.quick(a.getEvents))
	read.GET("/threads/:threadId/objects/:objectId", a.oneStream, a.quick(a.getObject))
}

// answerWithin is how long the bus and history may take for one answer, or before a stream.
const answerWithin = 15 * time.Second

// hurry bounds what the request's context is used for until the returned function is called.
func (a *API) hurry(c *gin.Context) (done func()) {
	patient := c.Request
	ctx, cancel := context.WithTimeout(patient.Context(), answerWithin)
	c.Request = patient.WithContext(ctx)
	return func() {
		cancel()
		c.Request = patient
	}
}

// quick is handle for what is answered at once.
func (a *API) quick(h func(*gin.Context) error) gin.HandlerFunc {
	return a.handle(func(c *gin.Context) error {
		defer a.hurry(c)()
		return h(c)
	})
}

// handle lets a handler return its error.
func (a *API) handle(h func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := h(c); err != nil {
			a.fail(c, err)
		}
	}
}

// isTraced leaves probes and scrapes out of the traces.
func isTraced(r *http.Request) bool {
	switch r.URL.Path {
	case "/healthz", "/readyz", "/metrics":
		return false
	}
	return true
}

func healthy(c *gin.Context) { c.String(http.StatusOK, "ok\n") }

// ready says whether traffic should come here.
func (a *API) ready(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), 2*time.Second)
	defer cancel()
	if a.Streamer.Draining() {
		c.String(http.StatusServiceUnavailable, "draining\n")
		return
	}
	if a.Keys != nil && !a.Keys.Ready() {
		c.String(http.StatusServiceUnavailable, "the API keys are not loaded yet\n")
		return
	}
	if err := a.Bus.Ready(ctx); err != nil {
		a.Log.WarnContext(ctx, "not ready", "error", err)
		c.String(http.StatusServiceUnavailable, "the message bus does not answer\n")
		return
	}
	if err := a.Desk.Backpressure(); err != nil {
		c.String(http.StatusOK, "ok\n"+err.Error()+"\n") // reading and ending what runs still work
		return
	}
	c.String(http.StatusOK, "ok\n")
}
