// Package api is the gateway's HTTP server: it routes requests to the protocols through authentication, rate limits,
// deadlines, CORS and traces, and converts errors into responses. It is the only package that imports gin.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"time"

	"github.com/agentbus/agentbus/pkg/limit"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
)

// Deps are the dependencies of the API. Every field is required, unless its comment says otherwise.
type Deps struct {
	Host      *protocol.Host
	Protocols []protocol.Protocol // at least one; the first encodes the errors of paths that no protocol serves
	Metrics   http.Handler        // served as /metrics; nil = not served
	OpenAPI   []byte
	Log       *slog.Logger
}

// API is the handler of all routes.
type API struct {
	Deps
	origins   *origins
	limits    limits
	streams   *limit.Quota                 // of a principal
	lists     *limit.Quota                 // of a principal
	listSlots chan struct{}                // of the process; see limitLists
	owners    map[string]protocol.Protocol // of each route's path, and of each folder that has routes of one protocol only
	engine    *gin.Engine
	traced    http.Handler // the engine
}

// New returns an API. It fails if an origin of the configuration is invalid, or if two protocols serve the same route.
func New(d Deps) (*API, error) {
	g := d.Host.Config.Gateway
	o, err := newOrigins(g.CORS)
	if err != nil {
		return nil, err
	}
	a := &API{Deps: d, origins: o, limits: newLimits(g, d.Host.Keys != nil), owners: map[string]protocol.Protocol{}}
	a.streams = limit.NewQuota(a.limits.streams)
	a.lists, a.listSlots = limit.NewQuota(a.limits.lists), make(chan struct{}, listSlots)
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.RedirectTrailingSlash = false
	engine.HandleMethodNotAllowed = true
	if err := engine.SetTrustedProxies(nil); err != nil {
		return nil, err
	}
	engine.Use(a.observe, a.recover, a.deadlines, a.securityHeaders, a.cors, a.admit, a.requireUTF8)
	engine.NoRoute(a.noRoute)
	engine.NoMethod(a.noMethod)
	a.operations(engine)
	for _, p := range d.Protocols {
		if err := a.register(engine, p); err != nil {
			return nil, err
		}
	}
	isPublic := func(*http.Request) bool { return !g.TrustTraceparent }
	a.engine, a.traced = engine, otelhttp.NewHandler(engine, "gateway",
		otelhttp.WithFilter(isTraced), otelhttp.WithPublicEndpointFn(isPublic))
	return a, nil
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.traced.ServeHTTP(w, r) }

// Route is a method and a path whose variable segments begin with ':'.
type Route struct{ Method, Path string }

// Routes lists all routes.
func (a *API) Routes() []Route {
	var all []Route
	for _, r := range a.engine.Routes() {
		all = append(all, Route{r.Method, r.Path})
	}
	return all
}

// operations adds the routes that belong to no protocol.
func (a *API) operations(engine *gin.Engine) {
	engine.GET("/healthz", healthy)
	engine.GET("/readyz", a.ready)
	engine.GET("/openapi.yaml", func(c *gin.Context) { c.Data(http.StatusOK, "application/yaml", a.OpenAPI) })
	if a.Metrics != nil {
		engine.GET("/metrics", gin.WrapH(a.Metrics))
	}
}

// register adds the routes of a protocol.
func (a *API) register(engine *gin.Engine, p protocol.Protocol) error {
	for _, r := range p.Routes() {
		for _, served := range engine.Routes() {
			if served.Method == r.Method && served.Path == r.Path {
				return fmt.Errorf("protocol %s: another protocol serves %s %s", p.Name(), r.Method, r.Path)
			}
		}
		a.own(p, r.Path)
		engine.Handle(r.Method, r.Path, a.handlers(p, r)...)
	}
	return nil
}

// own records that a protocol has a route at path. A folder such as /api/v1 belongs to the protocol of its routes, unless
// another one has routes there too.
func (a *API) own(p protocol.Protocol, routePath string) {
	for folder := path.Dir(routePath); folder != "/"; folder = path.Dir(folder) {
		if owner, shared := a.owners[folder]; shared && owner != p {
			a.owners[folder] = nil
		} else {
			a.owners[folder] = p
		}
	}
	a.owners[routePath] = p
}

// handlers returns the middleware of a route, and its handler.
func (a *API) handlers(p protocol.Protocol, r protocol.Route) []gin.HandlerFunc {
	chain := []gin.HandlerFunc{func(c *gin.Context) { c.Set(keyProtocol, p) }}
	if r.BearerSubprotocol {
		chain = append(chain, func(c *gin.Context) { protocol.BearerFromSubprotocol(c.Request.Header) })
	}
	if r.Scope != "" {
		chain = append(chain, a.authenticate(r.Cookie), a.checkRate, a.requireScope(r.Scope))
	}
	if !r.Body {
		chain = append(chain, a.discardBody(r.MaxBody))
	}
	switch r.Limit {
	case protocol.StreamLimit:
		chain = append(chain, a.limitStreams)
	case protocol.ListLimit:
		chain = append(chain, a.limitLists)
	case protocol.NoLimit:
	}
	return append(chain, func(c *gin.Context) {
		if err := a.serve(c, r); err != nil {
			a.fail(c, err)
		}
	})
}

// serve calls the handler of a route.
func (a *API) serve(c *gin.Context, r protocol.Route) error {
	call := protocol.Call{Writer: c.Writer, Request: c.Request, Route: r, Param: c.Param, CheckOrigin: a.origins.checkUpgrade}
	call.Principal = principal(c)
	if slot, ok := c.Get(keySlot); ok {
		call.Slot, _ = slot.(*protocol.Slot)
	}
	x := a.Host.NewExchange(call)
	defer x.Close()
	if !r.Untimed {
		defer x.WithTimeout()()
	}
	return r.Serve(x)
}

// discardBody reads a body that the route does not use, since an unread body delays the response.
func (a *API) discardBody(most int64) gin.HandlerFunc {
	return func(c *gin.Context) {
		if c.Request.ContentLength == 0 {
			return
		}
		if _, err := a.Host.ReadBody(c.Writer, c.Request, most); err != nil {
			a.fail(c, err)
		}
	}
}

// isTraced excludes probes and scrapes from traces.
func isTraced(r *http.Request) bool {
	switch r.URL.Path {
	case "/healthz", "/readyz", "/metrics":
		return false
	}
	return true
}

func healthy(c *gin.Context) { c.String(http.StatusOK, "ok\n") }

// ready reports whether the gateway can serve traffic.
func (a *API) ready(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), 2*time.Second)
	defer cancel()
	if a.Host.Streamer.Draining() {
		c.String(http.StatusServiceUnavailable, "draining\n")
		return
	}
	if a.Host.Keys != nil && !a.Host.Keys.Ready() {
		c.String(http.StatusServiceUnavailable, "the API keys are not loaded yet\n")
		return
	}
	if err := a.Host.Bus.Ready(ctx); err != nil {
		a.Log.WarnContext(ctx, "not ready", "error", err)
		c.String(http.StatusServiceUnavailable, "the message bus does not answer\n")
		return
	}
	if err := a.Host.Acceptor.Backpressure(); err != nil {
		c.String(http.StatusOK, "ok\n"+err.Error()+"\n") // reads and aborts still work
		return
	}
	c.String(http.StatusOK, "ok\n")
}
