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
	corsMethods = "GET, POST, DELETE"
	corsHeaders = "Authorization, Content-Type, Accept, Idempotency-Key, Last-Event-ID, traceparent, tracestate"
	corsExposed = protocol.HeaderRequestID + ", " + protocol.HeaderThreadID + ", " + headerTrace + ", " + protocol.HeaderReplayed +
		", " + protocol.HeaderStreamReset + ", " + protocol.HeaderStreamStart +
		", Location, Retry-After"
)

// origins are the web pages that may use the gateway from another origin.
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

// cors answers preflights, tells browsers which origins may read an answer, and refuses what a page of another origin
// sends without asking first: on a gateway without keys, nothing else stands between such a page and the agents.
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

// errOrigin says that a page of another origin may not do this.
var errOrigin = errors.New("cross-origin request")

// check refuses a request with an effect that a page of another origin sends.
func (o *origins) check(r *http.Request) error {
	if err := o.guard.Check(r); err != nil {
		return foreign(r, err)
	}
	return nil
}

func foreign(r *http.Request, err error) error {
	return apierr.Wrap(fmt.Errorf("%w: %w", errOrigin, err), apierr.AuthFailed,
		"pages of the origin %.80q may not use this gateway; an operator can add it to gateway.cors", r.Header.Get("Origin"))
}

// checkUpgrade refuses a WebSocket of such a page: it begins with a GET, which by itself has no effect, and neither
// browsers ask first nor do they keep what comes from the page.
//
// A browser that says that the page is of the same origin has compared schemes. Of another one the scheme is compared
// here: behind a proxy that ends TLS, its pages have to be listed.
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
		return foreign(r, fmt.Errorf("the origin of this gateway is %.80q", own))
	}
	return nil
}

// allow returns what to answer a page of origin: "" when it may not read the answer.
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
