package protocol

import (
	"context"
	"errors"
	"io"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// Listener is a Protocol whose clients do not use HTTP.
type Listener interface {
	Protocol
	// Listen serves clients until ctx is done, and waits for them.
	Listen(ctx context.Context, h *Host) error
}

// Caller is a client that does not use HTTP, under the limits of the gateway. Its methods are safe for concurrent use.
type Caller struct {
	host      *Host
	route     string
	principal auth.Principal
}

// NewCaller returns a caller. Logs and errors name the route.
func (h *Host) NewCaller(p auth.Principal, route string) *Caller { return &Caller{h, route, p} }

// Principal is the owner of what the caller does.
func (c *Caller) Principal() auth.Principal { return c.principal }

// CheckRate counts a call against the rate limit.
func (c *Caller) CheckRate(ctx context.Context) error { return c.host.CheckRate(ctx, c.principal) }

// Accept stores a request, so that it will run. The key is its idempotency key, "" for none.
func (c *Caller) Accept(ctx context.Context, key string, r Request) (admission.Receipt, error) {
	if err := CheckKey(key); err != nil {
		return admission.Receipt{}, err
	}
	return c.host.accept(ctx, c.principal, c.route, key, r)
}

// Find returns a request that the caller may see.
func (c *Caller) Find(ctx context.Context, requestID string) (authz.Request, error) {
	r, err := c.host.Guard.Request(ctx, c.principal, requestID)
	c.host.audit(ctx, c.principal, reading{c.route, r.ThreadID, requestID}, err)
	return r, err
}

// Follow passes the frames of a log to each until they end.
func (c *Caller) Follow(ctx context.Context, frames stream.Frames, each func(event.Frame) error) error {
	frames = c.host.pace(c.principal.Tenant, frames)
	defer frames.Close()
	for {
		f, err := frames.Next(ctx, c.host.Streamer.Heartbeat())
		switch {
		case errors.Is(err, bus.ErrIdle):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			c.host.Meter.Sent(ctx, len(f.Names))
			err = each(f)
		}
		if err != nil {
			return err
		}
	}
}

// Abort aborts a request that has no client any more, where its agent is configured so.
func (c *Caller) Abort(r admission.Receipt) {
	if c.host.Config.Agents[r.AgentID].OnDisconnect == config.OnDisconnectAbort {
		c.host.abort(c.principal, r.RequestID, "the client disconnected")
	}
}

// Error converts an error into one for the client. The details of internal errors are logged instead.
func (c *Caller) Error(ctx context.Context, err error) *apierr.Error {
	return c.host.clientError(ctx, c.route, err)
}
