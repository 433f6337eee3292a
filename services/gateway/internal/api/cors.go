package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/gin-gonic/gin"
)

const (
	corsMethods = "GET, POST, PATCH, DELETE"
	corsHeaders = "Authorization, X-Api-Key, Content-Type, Accept, Idempotency-Key, If-None-Match, Last-Event-ID, traceparent, tracestate"
	corsExposed = protocol.HeaderRequestID + ", " + protocol.HeaderThreadID + ", " + headerTrace + ", " + protocol.HeaderReplayed +
		", " + protocol.HeaderStreamReset + ", " + protocol.HeaderStreamStart +
		", Location, Content-Location, Retry-After, ETag, Stream-Next-Offset, Stream-Cursor, Stream-Up-To-Date, Stream-Closed"
)

// origins are the web pages of other origins that may use the gateway.
type origins struct {
	allowed []string
	guard   *http.CrossOriginProtection
}

func newOrigins(allowed []string) (*origins, error) {
	o := &origins{allowed: allowed, guard: http.NewCrossOriginProtection()}
	for _, origin := range allowed {
		if origin == "*" {
			o.guard.AddInsecureBypassPattern("/") //nolint:gosec // what "*" in the configuration asks for
			continue
		}
		if err := o.guard.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("gateway.cors: %w (https://app.example.com is the form)", err)
		}
	}
	return o, nil
}

// cors answers preflights, sets the headers that let browsers read responses, and refuses requests with effects from
// pages of other origins. Without API keys, this is the only protection of the agents from such pages.
func (a *API) cors(c *gin.Context) {
	h := c.Writer.Header()
	h.Add("Vary", "Origin")
	origin := c.GetHeader("Origin")
	if allowed := a.origins.allow(origin); allowed != "" {
		h.Set("Access-Control-Allow-Origin", allowed)
		h.Set("Access-Control-Expose-Headers", corsExposed)
		if c.Request.Method == http.MethodOptions && c.GetHeader("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", corsMethods)
			h.Set("Access-Control-Allow-Headers", corsHeaders)
			h.Set("Access-Control-Max-Age", "600")
			c.AbortWithStatus(http.StatusNoContent)
			return
		}
	}
	if err := a.origins.check(c.Request); err != nil {
		a.fail(c, err)
	}
}

// errOrigin is the refusal of a request from a page of another origin.
var errOrigin = errors.New("cross-origin request")

// check refuses a request with an effect if it comes from a page of another origin.
func (o *origins) check(r *http.Request) error {
	if err := o.guard.Check(r); err != nil {
		return isCrossOrigin(r, err)
	}
	return nil
}

func isCrossOrigin(r *http.Request, err error) error {
	return apierr.Wrap(fmt.Errorf("%w: %w", errOrigin, err), apierr.AuthFailed,
		"pages of the origin %.80q may not use this gateway; an operator can add it to gateway.cors", r.Header.Get("Origin"))
}

// checkUpgrade refuses a WebSocket from a page of another origin. It starts with a GET, which has no effect, and
// browsers neither send a preflight nor hide the messages from the page.
//
// A browser that sends Sec-Fetch-Site: same-origin has compared schemes. For other browsers the scheme is compared
// here: behind a proxy that terminates TLS, the origins must be configured.
func (o *origins) checkUpgrade(r *http.Request) error {
	err := o.check(&http.Request{Method: http.MethodPost, Host: r.Host, URL: r.URL, Header: r.Header})
	origin := r.Header.Get("Origin")
	if err != nil || origin == "" || o.allow(origin) != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return err
	}
	own := "http://" + r.Host
	if r.TLS != nil {
		own = "https://" + r.Host
	}
	if !strings.EqualFold(origin, own) {
		return isCrossOrigin(r, fmt.Errorf("the origin of this gateway is %.80q", own))
	}
	return nil
}

// allow returns the value of Access-Control-Allow-Origin for a page of origin; "" = it may not read the response.
func (o *origins) allow(origin string) string {
	switch {
	case origin == "":
		return ""
	case slices.Contains(o.allowed, "*"):
		return "*"
	case slices.Contains(o.allowed, origin):
		return origin
	}
	return ""
}
