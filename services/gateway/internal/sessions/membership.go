package sessions

import (
	"bytes"
	"context"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/dialect"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// membership is a session that a WebSocket has joined. A goroutine sends its events.
type membership struct {
	leave context.CancelFunc
	ended chan struct{} // closed when it sends nothing more
}

// over reports whether the membership has ended by itself.
func (m *membership) over() bool {
	select {
	case <-m.ended:
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
func (t *talk) join(ctx context.Context, w word) error {
	quick, done := context.WithTimeout(ctx, answerTime)
	defer done()
	found, err := t.seen(quick, w, auth.ScopeRead)
	t.socket.Audit(ctx, w.SessionID, err)
	if err != nil {
		return err
	}
	if _, again := t.members[w.SessionID]; !again && t.count() >= maxJoined {
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
	enc, err := t.dialect.Encoder(dialect.Options{From: frames.Rewind(), Place: frames.Place, ThreadID: w.SessionID})
	if err != nil {
		frames.Close()
		return err
	}
	first, err := t.overture(quick, found, frames, enc)
	if err != nil {
		frames.Close()
		return err
	}
	t.drop(w.SessionID)
	t.answer(ctx, "joined", w.SessionID, joined{now, frames.Start(), reset})
	if len(first) > 0 {
		_ = t.socket.Send(ctx, bytes.TrimSuffix(first, []byte("\n"))) // who does not take it ends the socket
	}
	own, leave := context.WithCancel(ctx)
	m := &membership{leave, make(chan struct{})}
	t.members[w.SessionID] = m
	go func() { // ends when drop says so
		defer close(m.ended)
		t.follow(own, w.SessionID, frames, enc)
	}()
	return nil
}

// follow sends the events of a session until somebody leaves or deletes it.
func (t *talk) follow(ctx context.Context, sessionID string, frames stream.Frames, enc dialect.Encoder) {
	err := t.socket.Pour(ctx, frames, enc)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		t.refuse(ctx, word{SessionID: sessionID}, err)
	}
	t.answer(ctx, "left", sessionID, departure(err))
}

// left says why no more events of a session come.
type left struct {
	Reason string `json:"reason"`
}

// departure is that of a session whose stream has ended: it is deleted, or cannot go on and may be joined again.
func departure(err error) left {
	if err != nil {
		return left{"failed"}
	}
	return left{"deleted"}
}

// leave sends nothing more of a session. Who has not joined it is told the same.
func (t *talk) leave(ctx context.Context, w word) error {
	if w.SessionID == "" {
		return invalid("Session ID is required")
	}
	t.drop(w.SessionID)
	t.answer(ctx, "left", w.SessionID, left{"asked"})
	return nil
}

// drop ends a membership, if there is one, and waits until it sends nothing more.
func (t *talk) drop(sessionID string) {
	m, ok := t.members[sessionID]
	if !ok {
		return
	}
	delete(t.members, sessionID)
	m.leave()
	<-m.ended
}

// end ends all memberships.
func (t *talk) end() {
	for sessionID := range t.members {
		t.drop(sessionID)
	}
}

// count says how many sessions are joined. Those that have ended by themselves are forgotten.
func (t *talk) count() int {
	for sessionID, m := range t.members {
		if m.over() {
			t.drop(sessionID)
		}
	}
	return len(t.members)
}
