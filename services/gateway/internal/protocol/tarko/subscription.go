package tarko

import (
	"bytes"
	"context"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// joined is the reply to join_session. A client can resume after the cursor even if it receives no event.
type joined struct {
	State  state  `json:"state"`
	Cursor string `json:"cursor"`
	Reset  bool   `json:"reset,omitzero"` // the cursor of the client cannot be resumed: all stored events follow
}

// subscribe sends the events of a session: from the start of the query that runs, or after a cursor. A second join of a session
// replaces the first.
func (t *wsConn) subscribe(ctx context.Context, w clientMessage) error {
	timed, done := context.WithTimeout(ctx, handleTimeout)
	defer done()
	found, err := t.authorize(timed, w, auth.ScopeRead)
	t.socket.Audit(ctx, w.SessionID, "", err)
	if err != nil {
		return err
	}
	if t.sessions.Count(w.SessionID) >= maxJoined {
		return apierr.New(apierr.RateLimitExceeded, "you have joined %d sessions; leave one, or use another connection", maxJoined)
	}
	now, _, err := t.state(timed, found)
	if err != nil {
		return err
	}
	frames, reset, err := t.open(timed, found, w.After)
	if err != nil {
		return err
	}
	enc, err := t.codec.Encoder(codec.Options{From: frames.Rewind(), Cursor: frames.AppendCursor, ThreadID: w.SessionID})
	if err != nil {
		frames.Close()
		return err
	}
	first, err := t.prelude(timed, found, frames, enc)
	if err != nil {
		frames.Close()
		return err
	}
	t.sessions.Stop(w.SessionID)
	t.send(ctx, "joined", w.SessionID, joined{now, frames.Start(), reset})
	if len(first) > 0 {
		_ = t.socket.Send(ctx, bytes.TrimSuffix(first, []byte("\n"))) // an error ends the socket
	}
	t.sessions.Start(ctx, w.SessionID, func(ctx context.Context) { t.follow(ctx, w.SessionID, frames, enc) })
	return nil
}

// follow sends the events of a session until the client leaves it or it is deleted.
func (t *wsConn) follow(ctx context.Context, sessionID string, frames stream.Frames, enc codec.Encoder) {
	err := t.socket.StreamFrames(ctx, frames, enc)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		t.sendError(ctx, clientMessage{SessionID: sessionID}, err)
	}
	t.send(ctx, "left", sessionID, closeReason(err))
}

// left is the reason why the stream of a session has ended.
type left struct {
	Reason string `json:"reason"`
}

// closeReason returns the reason of a stream that ended with err: the session was deleted, or its stream failed and may be joined
// again.
func closeReason(err error) left {
	if err != nil {
		return left{"failed"}
	}
	return left{"deleted"}
}

// unsubscribe ends the stream of a session. The reply is the same if the client has not joined it.
func (t *wsConn) unsubscribe(ctx context.Context, w clientMessage) error {
	if w.SessionID == "" {
		return invalid("Session ID is required")
	}
	t.sessions.Stop(w.SessionID)
	t.send(ctx, "left", w.SessionID, left{"asked"})
	return nil
}
