package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/limit"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/services/gateway/internal/quota"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/gin-gonic/gin"
)

// limits are how much a client may ask.
type limits struct {
	each     rediscache.Limit // requests of a key; zero = no limit
	guesses  rediscache.Limit // wrong keys from an address
	body     int64            // bytes
	bodyTime time.Duration    // for a client to send it
	sendTime time.Duration    // for a client to take a message of a WebSocket
	streams  int              // open at once, of a principal; 0 = no limit
	quotas   quota.Limits     // requests that wait or run, and what is stored
	replays  int              // streams that read storage at one time
	lists    int              // lists that a principal reads at one time; 0 = no limit
}

func newLimits(g config.Gateway, authenticated bool) limits {
	l := limits{
		body: 512 << 10, bodyTime: g.Limits.BodyTime.Or(30 * time.Second), sendTime: g.Limits.SendTime.Or(15 * time.Second),
		streams: g.Limits.Streams, replays: 64, lists: g.Limits.Lists,
		quotas: quota.Limits{
			Tenant: g.Quotas.TenantRequests, Key: g.Quotas.KeyRequests, TenantBytes: g.Quotas.TenantBytes, KeyBytes: g.Quotas.KeyBytes,
		},
		guesses: rediscache.Limit{Requests: 60, Per: time.Minute, Burst: 60},
	}
	if g.MaxBody > 0 {
		l.body = g.MaxBody
	}
	if g.Limits.Replays > 0 {
		l.replays = g.Limits.Replays
	}
	requests := g.RateLimit.Requests
	if authenticated { // without keys nothing tells clients apart, so only a configured limit counts
		requests = orDefault(requests, 600)
		l.streams, l.lists = orDefault(l.streams, 1000), orDefault(l.lists, 4)
		l.quotas.Tenant = orDefault(l.quotas.Tenant, 10_000) // of the 100,000 that the queue has room for
	}
	if requests > 0 {
		l.each = rediscache.Limit{Requests: requests, Per: g.RateLimit.Per.Or(time.Minute), Burst: orDefault(g.RateLimit.Burst, requests)}
	}
	return l
}

func orDefault(n, fallback int) int {
	if n > 0 {
		return n
	}
	return fallback
}

// limit counts the call for its key, and for its principal where there are no keys.
func (a *API) limit(c *gin.Context) {
	if err := a.count(c.Request.Context(), principal(c)); err != nil {
		a.fail(c, err)
	}
}

func (a *API) count(ctx context.Context, p auth.Principal) error {
	if a.limits.each.Requests == 0 {
		return nil
	}
	key := "key:" + p.KeyID
	if p.KeyID == "" {
		key = "principal:" + p.Tenant + ":" + p.Subject
	}
	if d := a.State.Allow(ctx, key, a.limits.each); !d.Allowed {
		return tooMany(d)
	}
	return nil
}

func tooMany(d rediscache.Decision) error {
	f := apierr.New(apierr.RateLimitExceeded, "too many requests; wait as long as Retry-After says")
	f.RetryAfter = max(d.RetryAfter, time.Second)
	return f
}

// writeTime is how long an answer may take that is no stream. A stream has a deadline for each write instead.
const writeTime = time.Minute

// deadlines keeps a client that sends or takes its bytes one by one from holding on to a connection.
func (a *API) deadlines(c *gin.Context) {
	connection := http.NewResponseController(c.Writer)
	now := time.Now()
	_ = connection.SetWriteDeadline(now.Add(writeTime)) // what cannot have deadlines is no connection
	if c.Request.ContentLength != 0 {
		_ = connection.SetReadDeadline(now.Add(a.limits.bodyTime))
	}
}

// crowdPatience is when somebody who has too much open may look again.
const crowdPatience = 5 * time.Second

// admit refuses what comes on a connection that is one too many.
func (a *API) admit(c *gin.Context) {
	if !limit.Over(c.Request.Context()) {
		return
	}
	f := apierr.New(apierr.RateLimitExceeded, "too many connections are open from your address; close some, or use one for several requests")
	f.RetryAfter = crowdPatience
	c.Header("Connection", "close")
	a.fail(c, f)
}

// keyPlace is where a handler finds the place that its stream takes.
const keyPlace = "place"

// place is one of a principal's places for streams. Whoever has taken it leaves it.
type place struct {
	leave func()
	taken bool
}

// oneStream holds one of the principal's places for streams, until the handlers behind it are done or, when one of them
// has begun a stream, until that has ended.
func (a *API) oneStream(c *gin.Context) {
	p := principal(c)
	leave, ok := a.streams.Enter(p.Tenant + "/" + p.Subject)
	if !ok {
		f := apierr.New(apierr.RateLimitExceeded, "you have %d streams open here; close one to open another", a.limits.streams)
		f.RetryAfter = crowdPatience
		a.fail(c, f)
		return
	}
	held := &place{leave: leave}
	c.Set(keyPlace, held)
	defer func() {
		if !held.taken {
			leave()
		}
	}()
	c.Next()
}

// Bounds of the lists that are read at one time by all callers: each is held whole until it is answered.
const (
	listPlaces   = 8
	listPatience = 5 * time.Second // of one that waits for a place
)

// oneList holds one of the principal's places for lists, and one of the process's, until the handlers behind it are done.
func (a *API) oneList(c *gin.Context) {
	p := principal(c)
	leave, ok := a.lists.Enter(p.Tenant + "/" + p.Subject)
	if !ok {
		f := apierr.New(apierr.RateLimitExceeded, "you read %d lists at one time; wait until one is answered", a.limits.lists)
		f.RetryAfter = time.Second
		a.fail(c, f)
		return
	}
	defer leave()
	patience := time.NewTimer(listPatience)
	defer patience.Stop()
	select {
	case a.listPlaces <- struct{}{}:
	case <-c.Request.Context().Done():
		a.fail(c, c.Request.Context().Err())
		return
	case <-patience.C:
		f := apierr.New(apierr.Unavailable, "too many lists are read at one time; try again")
		f.RetryAfter = crowdPatience
		a.fail(c, f)
		return
	}
	defer func() { <-a.listPlaces }()
	c.Next()
}

// serve streams an answer, on a route behind oneStream. The stream may go on after it has returned.
func (a *API) serve(c *gin.Context, answer stream.Response) error {
	held, _ := c.MustGet(keyPlace).(*place)
	route, ended := c.FullPath(), answer.Ended // not c, which serves another request by then
	answer.Ended = func(err error) {
		held.leave()
		if errors.Is(err, stream.ErrTruncated) && !errors.Is(err, stream.ErrDisconnected) {
			a.Log.Info("stream cut", "route", route, "error", err)
		}
		if ended != nil {
			ended(err)
		}
	}
	held.taken = true
	return a.Streamer.Serve(c.Writer, c.Request, answer)
}

// paced bounds how many streams read storage at one time, so that clients who all come back at once do not push aside
// those that are there. The others wait, and tenants take turns, so that one whose streams are many does not hold up another
// one's few; once a stream has caught up it is paced no more.
type paced struct {
	stream.Frames
	place *budget.Lease
	live  bool
}

func (a *API) paced(tenant string, f stream.Frames) stream.Frames {
	return &paced{Frames: f, place: a.replays.Lease(tenant)}
}

// caughtUp is how long nothing may come before a stream counts as live.
const caughtUp = time.Millisecond

// Next implements stream.Frames.
func (p *paced) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	if p.live || p.Ready() {
		return p.Frames.Next(ctx, wait)
	}
	patient, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := p.place.Wait(patient, 1); err != nil {
		return event.Frame{}, cmp.Or(ctx.Err(), bus.ErrIdle)
	}
	frame, err := p.Frames.Next(ctx, min(wait, caughtUp))
	p.place.Release()
	if errors.Is(err, bus.ErrNoRoom) { // others may read storage while this one waits for memory
		return p.Frames.Next(ctx, wait)
	}
	p.live = errors.Is(err, bus.ErrIdle)
	return frame, err
}
