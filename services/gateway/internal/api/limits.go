package api

import (
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/limit"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/gin-gonic/gin"
)

// limits are the limits of connections and concurrent requests.
type limits struct {
	wrongKeys rediscache.Limit // wrong keys from an address
	streams   int              // open at once, of a principal; 0 = no limit
	lists     int              // lists that a principal reads at one time; 0 = no limit
}

func newLimits(g config.Gateway, authenticated bool) limits {
	l := limits{
		streams: g.Limits.Streams, lists: g.Limits.Lists,
		wrongKeys: rediscache.Limit{Requests: 60, Per: time.Minute, Burst: 60},
	}
	if authenticated { // without keys all clients are the same principal, so only configured limits apply
		l.streams, l.lists = orDefault(l.streams, 1000), orDefault(l.lists, 4)
	}
	return l
}

func orDefault(n, fallback int) int {
	if n > 0 {
		return n
	}
	return fallback
}

// deadlines bounds the time for a client to send its body and to receive the response. A stream extends them.
func (a *API) deadlines(c *gin.Context) {
	connection := http.NewResponseController(c.Writer)
	now := time.Now()
	_ = connection.SetWriteDeadline(now.Add(protocol.WriteTimeout)) // fails in tests without a connection
	if c.Request.ContentLength != 0 {
		_ = connection.SetReadDeadline(now.Add(a.Host.BodyTimeout()))
	}
}

// retryLimit is when to retry after a limit of open connections or streams was reached.
const retryLimit = 5 * time.Second

// admit refuses requests on a connection that exceeds the limit of its address.
func (a *API) admit(c *gin.Context) {
	if !limit.Over(c.Request.Context()) {
		return
	}
	f := apierr.New(apierr.RateLimitExceeded, "too many connections are open from your address; close some, or use one for several requests")
	f.RetryAfter = retryLimit
	c.Header("Connection", "close")
	a.fail(c, f)
}

// limitStreams takes one of the principal's slots for streams. It is released after the handler, or at the end of the stream
// that the handler has started. A stream of events that exist waits for its tenant's pace.
func (a *API) limitStreams(c *gin.Context) {
	p := principal(c)
	leave, ok := a.streams.Enter(p.Tenant + "/" + p.Subject)
	if !ok {
		f := apierr.New(apierr.RateLimitExceeded, "you have %d streams open here; close one to open another", a.limits.streams)
		f.RetryAfter = retryLimit
		a.fail(c, f)
		return
	}
	slot := protocol.NewSlot(leave)
	c.Set(keySlot, slot)
	defer slot.Release()
	if c.Request.Method == http.MethodGet {
		if err := a.Host.AwaitOpening(c.Request.Context(), p.Tenant); err != nil {
			a.fail(c, err)
			return
		}
	}
	c.Next()
}

// Limits of the lists that are read at the same time by all callers: each is held in memory until it is written.
const (
	listSlots = 8
	listWait  = 5 * time.Second // for a slot
)

// limitLists takes one of the principal's slots for lists, and one of the process's, for the duration of the handler.
func (a *API) limitLists(c *gin.Context) {
	p := principal(c)
	leave, ok := a.lists.Enter(p.Tenant + "/" + p.Subject)
	if !ok {
		f := apierr.New(apierr.RateLimitExceeded, "you read %d lists at one time; wait until one is answered", a.limits.lists)
		f.RetryAfter = time.Second
		a.fail(c, f)
		return
	}
	defer leave()
	wait := time.NewTimer(listWait)
	defer wait.Stop()
	select {
	case a.listSlots <- struct{}{}:
	case <-c.Request.Context().Done():
		a.fail(c, c.Request.Context().Err())
		return
	case <-wait.C:
		f := apierr.New(apierr.Unavailable, "too many lists are read at one time; try again")
		f.RetryAfter = retryLimit
		a.fail(c, f)
		return
	}
	defer func() { <-a.listSlots }()
	c.Next()
}
