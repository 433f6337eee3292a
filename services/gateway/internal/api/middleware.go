package api

import (
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/limit"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// What middleware leaves for handlers in the gin context.
const (
	keyPrincipal = "principal"
	keyDialect   = "dialect"
	keyMaxBody   = "maxBody" // bytes; not set = as everywhere
)

// observe names the trace and counts the answer.
func (a *API) observe(c *gin.Context) {
	route := c.FullPath()
	if route == "" {
		route = "none"
	}
	ctx := c.Request.Context()
	span := trace.SpanFromContext(ctx)
	span.SetName(c.Request.Method + " " + route)
	span.SetAttributes(attribute.String("http.route", route))
	if id := span.SpanContext().TraceID(); id.IsValid() {
		c.Header(headerTrace, id.String())
	}
	defer func() { a.Meter.Answered(ctx, route, c.Writer.Status()) }() // also when the connection is aborted
	c.Next()
}

// text refuses parameters and cursors that are no UTF-8: they name nothing, and no record can hold them.
func (a *API) text(c *gin.Context) {
	bad := func(name string) {
		a.fail(c, apierr.New(apierr.InvalidMessageFormat, "%.40q in the URL or the headers must be UTF-8", name))
	}
	for name, values := range c.Request.URL.Query() {
		if !utf8.ValidString(name) || slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			bad(name)
			return
		}
	}
	for _, name := range []string{"Last-Event-ID", "Idempotency-Key"} {
		if slices.ContainsFunc(c.Request.Header.Values(name), func(v string) bool { return !utf8.ValidString(v) }) {
			bad(name)
			return
		}
	}
}

// secure sets what every response should carry.
func (a *API) secure(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
}

// speak remembers the dialect of a route.
func (a *API) speak(d codec.Codec) gin.HandlerFunc {
	return func(c *gin.Context) { c.Set(keyDialect, d) }
}

// dialectOf is the dialect that the client of a route reads, also before the handlers of the route run.
func (a *API) dialectOf(c *gin.Context) codec.Codec {
	if d, ok := c.Get(keyDialect); ok {
		return d.(codec.Codec)
	}
	if d, ok := a.dialects[c.FullPath()]; ok {
		return d
	}
	return a.Speakers[0].Dialect
}

// authenticate finds out who calls. Whoever keeps guessing from one address is made to wait; a valid key never is.
func (a *API) authenticate(c *gin.Context) {
	if a.Keys == nil {
		c.Set(keyPrincipal, auth.Dev())
		return
	}
	p, err := a.verify(c.Request)
	if err == nil {
		c.Set(keyPrincipal, p)
		return
	}
	if apierr.CodeOf(err) == apierr.AuthFailed {
		if d := a.State.Allow(c.Request.Context(), "guess:"+limit.Network(c.Request.RemoteAddr), a.limits.guesses); !d.Allowed {
			err = tooMany(d)
		}
	}
	a.fail(c, err)
}

func (a *API) verify(r *http.Request) (auth.Principal, error) {
	key, err := auth.Bearer(r.Header)
	if err != nil {
		return auth.Principal{}, err
	}
	return a.Keys.Verify(key, a.Bus.Now())
}

func principal(c *gin.Context) auth.Principal {
	p, _ := c.MustGet(keyPrincipal).(auth.Principal) // authenticate has set it on every route that asks
	return p
}

// need refuses keys without a scope.
func (a *API) need(s auth.Scope) gin.HandlerFunc {
	return func(c *gin.Context) {
		if !principal(c).May(s) {
			a.fail(c, apierr.New(apierr.AuthFailed, "the API key lacks the scope %q", s))
		}
	}
}
