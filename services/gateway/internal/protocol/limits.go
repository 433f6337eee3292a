package protocol

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/services/gateway/internal/quota"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// Timeout bounds what the bus and history may take for one response, or before a stream.
const Timeout = 15 * time.Second

// WriteTimeout bounds the writing of a response that is not a stream. A stream has a deadline for each write instead.
const WriteTimeout = time.Minute

// limits are the limits of one exchange.
type limits struct {
	rate     rediscache.Limit // requests of a key; zero = no limit
	body     int64            // bytes
	bodyTime time.Duration    // for a client to send the body
	sendTime time.Duration    // for a client to take a message of a WebSocket
	quotas   quota.Limits     // open requests, and stored bytes
	replays  int              // streams that read storage at one time
}

func newLimits(g config.Gateway, authenticated bool) limits {
	l := limits{
		body: 512 << 10, bodyTime: g.Limits.BodyTime.Or(30 * time.Second), sendTime: g.Limits.SendTime.Or(15 * time.Second),
		replays: 64,
		quotas: quota.Limits{
			Tenant: g.Quotas.TenantRequests, Key: g.Quotas.KeyRequests, TenantBytes: g.Quotas.TenantBytes, KeyBytes: g.Quotas.KeyBytes,
		},
	}
	if g.MaxBody > 0 {
		l.body = g.MaxBody
	}
	if g.Limits.Replays > 0 {
		l.replays = g.Limits.Replays
	}
	requests := g.RateLimit.Requests
	if authenticated { // without keys all clients are the same principal, so only configured limits apply
		requests = orDefault(requests, 600)
		l.quotas.Tenant = orDefault(l.quotas.Tenant, 10_000) // of the 100,000 that the queue holds
	}
	if requests > 0 {
		l.rate = rediscache.Limit{Requests: requests, Per: g.RateLimit.Per.Or(time.Minute), Burst: orDefault(g.RateLimit.Burst, requests)}
	}
	return l
}

func orDefault(n, fallback int) int {
	if n > 0 {
		return n
	}
	return fallback
}

// CheckRate counts a request against the rate limit of its key, or of its principal where authentication is off.
func (h *Host) CheckRate(ctx context.Context, p auth.Principal) error {
	if h.limits.rate.Requests == 0 {
		return nil
	}
	key := "key:" + p.LimitID()
	if p.LimitID() == "" {
		key = "principal:" + p.Tenant + ":" + p.Subject
	}
	if d := h.State.Allow(ctx, key, h.limits.rate); !d.Allowed {
		return RateExceeded(d)
	}
	return nil
}

// RateExceeded is the error of a request over a rate limit.
func RateExceeded(d rediscache.Decision) error {
	f := apierr.New(apierr.RateLimitExceeded, "too many requests; wait as long as Retry-After says")
	f.RetryAfter = max(d.RetryAfter, time.Second)
	return f
}

// BodyTimeout bounds the reading of a request's body.
func (h *Host) BodyTimeout() time.Duration { return h.limits.bodyTime }

// Slot is one of the streams that a principal may have open. The middleware that took it releases it after the handler,
// unless a stream that outlives the handler has kept it. It is for the goroutine of the handler.
type Slot struct {
	release func()
	kept    bool
}

// NewSlot returns a slot that release frees.
func NewSlot(release func()) *Slot { return &Slot{release: release} }

// keep makes the caller responsible for release.
func (s *Slot) keep() { s.kept = true }

// Release frees the slot, unless a stream has kept it.
func (s *Slot) Release() {
	if !s.kept {
		s.release()
	}
}

// The pace at which a tenant opens streams that read storage: after the burst, this many per second and processor.
const (
	openBurst = 64
	openRate  = 150
)

// newOpenings returns the budget for openings of streams. Only its pace limits, because an opening holds nothing.
func newOpenings() *budget.Turns {
	processors := runtime.GOMAXPROCS(0)
	return budget.NewTurns(processors, budget.Pace{Rate: float64(openRate * processors), Burst: openBurst})
}

// AwaitOpening waits until a client of a tenant may open another stream of events that exist, or until ctx ends. Each of them
// costs several reads of storage, and a tenant whose clients all come at once, as after a restart of a gateway, would delay
// the requests of the others.
func (h *Host) AwaitOpening(ctx context.Context, tenant string) error {
	turn := h.openings.Turn(tenant)
	if err := turn.Take(ctx); err != nil {
		return err
	}
	turn.Leave(1)
	return nil
}

// pacedFrames bounds how many streams read storage at one time, so that many clients that reconnect at once do not delay the
// streams that are live. Tenants take turns. A stream that has caught up is no longer paced.
type pacedFrames struct {
	stream.Frames
	turn *budget.Turn
	live bool
}

// pace limits the reading of storage by frames until they have caught up.
func (h *Host) pace(tenant string, f stream.Frames) stream.Frames {
	return &pacedFrames{Frames: f, turn: h.replays.Turn(tenant)}
}

// caughtUp is how long no frame may come before a stream counts as live.
const caughtUp = time.Millisecond

// Next implements stream.Frames.
func (p *pacedFrames) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	if p.live || p.Ready() {
		return p.Frames.Next(ctx, wait)
	}
	timed, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := p.turn.Take(timed); err != nil {
		return event.Frame{}, cmp.Or(ctx.Err(), bus.ErrIdle)
	}
	frame, err := p.Frames.Next(ctx, min(wait, caughtUp))
	p.turn.Leave(0)
	if errors.Is(err, bus.ErrThrottled) { // another stream may read storage while this one waits for memory
		return p.Frames.Next(ctx, wait)
	}
	p.live = errors.Is(err, bus.ErrIdle)
	return frame, err
}
