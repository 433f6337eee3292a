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
	done   chan struct{} // closed when it sends nothing more
}

// ended reports whether the membership has ended by itself.
func (m *subscription) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// joined is the answer to join_session. Who comes back with the cursor misses nothing, even if nothing more came.
type joined struct {
	State  state  `json:"state"`
	Cursor string `json:"cursor"`
	Reset  bool   `json:"reset,omitzero"` // the cursor that was sent was of no use: all that there is follows
}

// join sends the events of a session from now on (S0-42): from the start of what runs, or behind a cursor. Who has joined
// already begins anew.
func (t *wsConn) subscribe(ctx context.Context, w clientMessage) error {
	quick, done := context.WithTimeout(ctx, answerTime)
	defer done()
	found, err := t.authorize(quick, w, auth.ScopeRead)
	t.socket.Audit(ctx, w.SessionID, err)
	if err != nil {
		return err
	}
	if _, again := t.subscriptions[w.SessionID]; !again && t.subscribed() >= maxJoined {
		return apierr.New(apierr.RateLimitExceeded, "you have joined %d sessions; leave one, or use another connection", maxJoined)
	}
	now, _, err := t.state(quick, found)
	if err != nil {
		return err
	}
	frames, reset, err := t.open(quick, found, w.After)
	if err != nil {
		return err
	}
	enc, err := t.codec.Encoder(codec.Options{From: frames.Rewind(), Cursor: frames.AppendCursor, ThreadID: w.SessionID})
	if err != nil {
		frames.Close()
		return err
	}
	first, err := t.prelude(quick, found, frames, enc)
	if err != nil {
		frames.Close()
		return err
	}
	t.cancel(w.SessionID)
	t.send(ctx, "joined", w.SessionID, joined{now, frames.Start(), reset})
	if len(first) > 0 {
		_ = t.socket.Send(ctx, bytes.TrimSuffix(first, []byte("\n"))) // who does not take it ends the socket
	}
	own, leave := context.WithCancel(ctx)
	m := &subscription{leave, make(chan struct{})}
	t.subscriptions[w.SessionID] = m
	go func() { // ends when drop says so
		defer close(m.done)
		t.follow(own, w.SessionID, frames, enc)
	}()
	return nil
}

// follow sends the events of a session until somebody leaves or deletes it.
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

// left says why no more events of a session come.
type left struct {
	Reason string `json:"reason"`
}

// closeReason is that of a session whose stream has ended: it is deleted, or cannot go on and may be joined again.
func closeReason(err error) left {
	if err != nil {
		return left{"failed"}
	}
	return left{"deleted"}
}

// leave sends nothing more of a session. Who has not joined it is told the same.
func (t *wsConn) unsubscribe(ctx context.Context, w clientMessage) error {
	if w.SessionID == "" {
		return invalid("Session ID is required")
	}
	t.cancel(w.SessionID)
	t.send(ctx, "left", w.SessionID, left{"asked"})
	return nil
}

// cancel ends a membership, if there is one, and waits until it sends nothing more.
func (t *wsConn) cancel(sessionID string) {
	m, ok := t.subscriptions[sessionID]
	if !ok {
		return
	}
	delete(t.subscriptions, sessionID)
	m.cancel()
	<-m.done
}

// close ends all memberships.
func (t *wsConn) close() {
	for sessionID := range t.subscriptions {
		t.cancel(sessionID)
	}
}

// subscribed says how many sessions are joined. Those that have ended by themselves are forgotten.
func (t *wsConn) subscribed() int {
	for sessionID, m := range t.subscriptions {
		if m.ended() {
			t.cancel(sessionID)
		}
	}
	return len(t.subscriptions)
}
