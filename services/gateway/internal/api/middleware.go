package api

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/limit"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// The keys of the values that middleware sets in the gin context.
const (
	keyPrincipal = "principal"
	keyProtocol  = "protocol"
	keySlot      = "slot"
)

// observe names the trace and counts the response.
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
	defer func() { a.Host.Meter.Answered(ctx, route, c.Writer.Status()) }() // also when the connection is aborted
	c.Next()
}

// requireUTF8 refuses parameters and cursors that are not UTF-8: records cannot store them.
func (a *API) requireUTF8(c *gin.Context) {
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

// securityHeaders sets the security headers of every response.
func (a *API) securityHeaders(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
}

// protocolOf returns the protocol of a route, also before the handlers of the route run. A path without a route belongs to
// the protocol of the nearest folder above it.
func (a *API) protocolOf(c *gin.Context) protocol.Protocol {
	if p, ok := c.Get(keyProtocol); ok {
		return p.(protocol.Protocol)
	}
	if p := a.owners[c.FullPath()]; p != nil {
		return p
	}
	folder := c.Request.URL.Path
	for end := strings.LastIndexByte(folder, '/'); end > 0; end = strings.LastIndexByte(folder, '/') {
		folder = folder[:end]
		if p := a.owners[folder]; p != nil {
			return p
		}
	}
	return a.Protocols[0]
}

// authenticate sets the principal of the request's API key. It limits the rate of wrong keys from one address; a valid key is
// not limited. With cookie, the cookie of a login is accepted if there is no key.
func (a *API) authenticate(cookie bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		if a.Host.Keys == nil {
			c.Set(keyPrincipal, auth.Dev())
			return
		}
		p, err := a.verify(c.Request, cookie)
		if err == nil {
			c.Set(keyPrincipal, p)
			return
		}
		if apierr.CodeOf(err) == apierr.AuthFailed {
			if d := a.Host.State.Allow(c.Request.Context(), "guess:"+limit.Network(c.Request.RemoteAddr), a.limits.wrongKeys); !d.Allowed {
				err = protocol.RateExceeded(d)
			}
		}
		a.fail(c, err)
	}
}

func (a *API) verify(r *http.Request, cookie bool) (auth.Principal, error) {
	if cookie && len(r.Header.Values("Authorization")) == 0 {
		ticket, err := protocol.LoginTicket(r)
		if err != nil {
			return auth.Principal{}, err
		}
		if ticket != "" {
			return a.Host.Keys.VerifyTicket(ticket, a.Host.Bus.Now())
		}
	}
	key, err := auth.Bearer(r.Header)
	if err != nil {
		return auth.Principal{}, err
	}
	return a.Host.Keys.VerifyBearer(r.Context(), key, a.Host.Bus.Now())
}

// principal returns the principal that authenticate has set, a zero one on a route without authentication.
func principal(c *gin.Context) auth.Principal {
	v, _ := c.Get(keyPrincipal)
	p, _ := v.(auth.Principal)
	return p
}

// checkRate counts the request against the rate limit of its key.
func (a *API) checkRate(c *gin.Context) {
	p := principal(c)
	if err := a.Host.CheckRate(c.Request.Context(), p); err != nil {
		a.fail(c, err)
	}
}

// requireScope refuses keys without a scope.
func (a *API) requireScope(s auth.Scope) gin.HandlerFunc {
	return func(c *gin.Context) {
		if p := principal(c); !p.May(s) {
			a.fail(c, apierr.New(apierr.AuthFailed, "the API key lacks the scope %q", s))
		}
	}
}
