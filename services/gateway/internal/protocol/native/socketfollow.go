package native

import (
	"context"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// nameOf returns the name of the follower of a target.
func nameOf(t wire.Target) string {
	if t.ThreadID != "" {
		return "thread " + t.ThreadID
	}
	return "request " + t.RequestID
}

// checkFollowers returns an error if the client follows as many targets as it may, without the one of a name.
func (c *conn) checkFollowers(name string) error {
	if c.followers.Count(name) >= maxFollowed {
		return apierr.New(apierr.RateLimitExceeded,
			"you follow %d requests and threads; unfollow one, or use another connection", maxFollowed)
	}
	return nil
}

// follow sends the events of a request or thread after the reply. It replaces the follower of the same target.
func (c *conn) follow(ctx context.Context, m wire.Follow) error {
	timed, done := context.WithTimeout(ctx, messageTime)
	defer done()
	open := c.openRequestOf
	if m.ThreadID != "" {
		open = c.openThreadOf
	}
	if err := c.checkFollowers(nameOf(m.Target)); err != nil {
		return err
	}
	o, err := open(timed, m)
	if err != nil {
		return err
	}
	target := wire.Target{ThreadID: m.ThreadID}
	if m.ThreadID == "" {
		target.RequestID = m.RequestID
	}
	c.followers.Stop(nameOf(target))
	c.send(ctx, reply{Type: "reply", ID: m.ID, Cursor: o.start, Reset: o.reset, Target: target})
	c.startFollower(ctx, target, o)
	return nil
}

// openRequestOf opens the log of the request of a message.
func (c *conn) openRequestOf(ctx context.Context, m wire.Follow) (opened, error) {
	r, err := c.Guard.Request(ctx, c.socket.Principal(), m.RequestID)
	c.socket.Audit(ctx, r.ThreadID, m.RequestID, err)
	if err != nil {
		return opened{}, err
	}
	return c.openLog(ctx, r, m.After, c.lines(m.Include))
}

// openThreadOf opens the thread of a message.
func (c *conn) openThreadOf(ctx context.Context, m wire.Follow) (opened, error) {
	p := c.socket.Principal()
	t, err := c.Guard.Thread(ctx, p, m.ThreadID)
	c.socket.Audit(ctx, m.ThreadID, "", err)
	if err != nil {
		return opened{}, err
	}
	cursor, reset := m.After, false
	if m.RequestID != "" {
		if cursor, reset, err = c.threadCursor(ctx, p.Tenant, m); err != nil {
			return opened{}, err
		}
	}
	o, err := c.openLogs(ctx, p.Tenant, t, cursor, c.lines(m.Include))
	o.reset = o.reset || reset
	return o, err
}

// threadCursor converts the id of an event of a request into a cursor of its thread. If the bus does not have the request on that
// thread, the cursor is that of the beginning and reset is true.
func (c *conn) threadCursor(ctx context.Context, tenant string, m wire.Follow) (cursor string, reset bool, err error) {
	incarnation, n, err := event.ParseCursor(m.After)
	if err != nil {
		return "", false, apierr.Wrap(err, apierr.InvalidMessageFormat,
			"after must be the id of an event of the request, like k3f9-17; without requestId it is a cursor of the thread")
	}
	for r, err := range c.Bus.ThreadRecords(ctx, tenant, m.ThreadID, 0) {
		if err != nil {
			return "", false, authz.Unavailable(err)
		}
		if r.RequestID == m.RequestID {
			return string(stream.RequestCursor(r.Index)(nil, incarnation, n)), false, nil
		}
	}
	return stream.FromStart, true, nil
}

// lines encodes events as lines of JSON.
func (c *conn) lines(include []string) encoding {
	return func(agentID string, o codec.Options) (codec.Encoder, error) {
		o, err := c.including(c.socket.Principal(), agentID, include, o)
		if err != nil {
			return nil, err
		}
		o.Accept = wire.NDJSON
		return c.codec.Encoder(o)
	}
}

// startFollower sends the events of a target until the client stops following it, and then says that they have ended.
func (c *conn) startFollower(ctx context.Context, target wire.Target, o opened) {
	if o.frames == nil {
		c.send(ctx, end{Type: "end", Target: target})
		return
	}
	c.followers.Start(ctx, nameOf(target), func(ctx context.Context) {
		err := c.socket.StreamFrames(ctx, o.frames, o.enc)
		if ctx.Err() == nil {
			c.sendEnd(ctx, target, err)
		}
	})
}

// sendEnd says that the events of a target have ended, with err if they could not be continued.
func (c *conn) sendEnd(ctx context.Context, target wire.Target, err error) {
	message := end{Type: "end", Target: target}
	if err != nil {
		message.Error = c.errorEvent(c.socket.Error(ctx, err), target)
	}
	c.send(ctx, message)
}

// start starts a request and follows it. The request continues when the client disconnects.
func (c *conn) start(ctx context.Context, m wire.Start) error {
	timed, done := context.WithTimeout(ctx, messageTime)
	defer done()
	if !c.socket.HasAgent(m.Agent) {
		return agentNotFound(m.Agent)
	}
	request, err := wire.DecodeMember(m.Request)
	if err == nil {
		err = c.checkFollowers("")
	}
	if err != nil {
		return err
	}
	encode := c.lines(m.Include)
	if _, err := encode(m.Agent, codec.Options{}); err != nil { // before the request is accepted
		return err
	}
	receipt, err := c.socket.Accept(timed, m.IdempotencyKey, protocol.Request{
		AgentID: m.Agent, Request: request, Target: m.Agent, Body: m.Request, CreateThread: m.CreateThread,
	})
	if err != nil {
		return err
	}
	target := wire.Target{RequestID: receipt.RequestID}
	c.followers.Stop(nameOf(target))
	c.send(ctx, reply{
		Type: "reply", ID: m.ID, AgentID: receipt.AgentID, Status: string(historyapi.StatusQueued), Replayed: receipt.Replayed,
		Target: wire.Target{RequestID: receipt.RequestID, ThreadID: receipt.ThreadID},
	})
	o, err := c.openAccepted(timed, receipt.RequestID, encode)
	if err != nil {
		c.sendEnd(ctx, target, err)
		return nil
	}
	c.startFollower(ctx, target, o)
	return nil
}

// openAccepted opens the log of a request that the client has started.
func (c *conn) openAccepted(ctx context.Context, requestID string, encode encoding) (opened, error) {
	r, err := c.Guard.Request(ctx, c.socket.Principal(), requestID)
	if err != nil {
		return opened{}, err
	}
	return c.openLog(ctx, r, "", encode)
}
