package tarko

import (
	"bytes"
	"context"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// subscription is a session that a WebSocket has joined. A goroutine sends its events.
type subscription struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
}

// ended reports whether the stream has ended without being cancelled.
func (m *subscription) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

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
	t.socket.Audit(ctx, w.SessionID, err)
	if err != nil {
		return err
	}
	if _, again := t.subscriptions[w.SessionID]; !again && t.subscribed() >= maxJoined {
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
	t.cancel(w.SessionID)
	t.send(ctx, "joined", w.SessionID, joined{now, frames.Start(), reset})
	if len(first) > 0 {
		_ = t.socket.Send(ctx, bytes.TrimSuffix(first, []byte("\n"))) // an error ends the socket
	}
	own, leave := context.WithCancel(ctx)
	m := &subscription{leave, make(chan struct{})}
	t.subscriptions[w.SessionID] = m
	go func() { // ends with cancel
		defer close(m.done)
		t.follow(own, w.SessionID, frames, enc)
	}()
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
	t.cancel(w.SessionID)
	t.send(ctx, "left", w.SessionID, left{"asked"})
	return nil
}

// cancel ends a subscription, if it exists, and waits for its goroutine.
func (t *wsConn) cancel(sessionID string) {
	m, ok := t.subscriptions[sessionID]
	if !ok {
		return
	}
	delete(t.subscriptions, sessionID)
	m.cancel()
	<-m.done
}

// close ends all subscriptions.
func (t *wsConn) close() {
	for sessionID := range t.subscriptions {
		t.cancel(sessionID)
	}
}

// subscribed counts the subscriptions, and removes those that have ended.
func (t *wsConn) subscribed() int {
	for sessionID, m := range t.subscriptions {
		if m.ended() {
			t.cancel(sessionID)
		}
	}
	return len(t.subscriptions)
}
