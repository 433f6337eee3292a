package sessions

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/api"
	"github.com/agentbus/agentbus/services/gateway/internal/dialect"
	"github.com/go-json-experiment/json"
)

// Limits of a WebSocket.
const (
	maxJoined  = 32               // sessions
	answerTime = 15 * time.Second // for what a message asks
	maxType    = 40               // bytes of a type that an answer repeats
)

// getSocket is the WebSocket (S0, WebSocket Protocol). Beside the events of the sessions that were joined, each message
// of the client has one answer, in order; docs/tarko.md lists them.
func (s *Sessions) getSocket(c *api.Call) error {
	d, err := s.Speech.of(c, s.Speech.Message, s.Speech.MessageProtocol)
	if err != nil {
		return err
	}
	return c.Upgrade(func(ctx context.Context, socket *api.Socket) error {
		t := &talk{Sessions: s, socket: socket, dialect: d, members: map[string]*membership{}}
		defer t.end()
		return t.listen(ctx)
	})
}

// talk is what goes on over one WebSocket. It is for the goroutine that listens.
type talk struct {
	*Sessions
	socket  *api.Socket
	dialect dialect.Dialect
	members map[string]*membership // by session
}

// word is what a client sends (S0, Client → Server). After and IdempotencyKey are ours.
type word struct {
	Type           string `json:"type"`
	SessionID      string `json:"sessionId"`
	After          string `json:"after"`          // a cursor, or 0 for all that there is
	IdempotencyKey string `json:"idempotencyKey"` // of a query
}

// The types of a client's messages.
const (
	joinSession  = "join_session"
	leaveSession = "leave_session"
	sendQuery    = "send_query"
	abortQuery   = "abort_query"
	ping         = "ping"
)

// listen answers the client until the socket ends.
func (t *talk) listen(ctx context.Context) error {
	for {
		idle := t.Config.Gateway.Limits.IdleTime.Or(2 * time.Minute)
		if t.count() > 0 {
			idle = 0
		}
		text, err := t.socket.Receive(ctx, idle)
		if err != nil {
			return err
		}
		var w word
		if err := t.heed(ctx, text, &w); err != nil {
			t.refuse(ctx, w, err)
		}
	}
}

// heed does what a message asks and answers it. Its error takes the place of the answer.
func (t *talk) heed(ctx context.Context, text []byte, w *word) error {
	if err := t.socket.Admit(ctx); err != nil {
		return err
	}
	if err := decode(text, w); err != nil {
		return err
	}
	switch w.Type {
	case joinSession:
		return t.join(ctx, *w)
	case leaveSession:
		return t.leave(ctx, *w)
	case sendQuery:
		return t.query(ctx, *w, text)
	case abortQuery:
		return t.stop(ctx, *w)
	case ping:
		t.answer(ctx, "pong", "", nil)
		return nil
	}
	return invalid("type=%.40q: use %s, %s, %s, %s or %s", w.Type, joinSession, leaveSession, sendQuery, abortQuery, ping)
}

// seen finds the session of a message, if the client may see it, and do with it what the scope says.
func (t *talk) seen(ctx context.Context, w word, scope auth.Scope) (session, error) {
	p := t.socket.Principal()
	if !p.May(scope) {
		return session{}, apierr.New(apierr.AuthFailed, "the API key lacks the scope %q", scope)
	}
	if w.SessionID == "" {
		return session{}, invalid("Session ID is required")
	}
	return t.find(ctx, p, w.SessionID)
}

// accepted is the answer to a query.
type accepted struct {
	RequestID string `json:"requestId"`
	Replayed  bool   `json:"replayed,omitzero"` // the idempotencyKey was used before: this is the request that it made then
}

// query asks a session (S0-43). What comes of it is seen by all who have joined, and goes on without them.
func (t *talk) query(ctx context.Context, w word, text []byte) error {
	quick, done := context.WithTimeout(ctx, answerTime)
	defer done()
	found, err := t.seen(quick, w, auth.ScopeRun)
	if err != nil {
		return err
	}
	noted, err := t.noted(quick, found)
	if err != nil {
		return err
	}
	q, err := t.address(noted, text)
	if err != nil {
		return err
	}
	ticket, err := t.socket.Accept(quick, q.agentID, q.request, w.IdempotencyKey, text)
	if err != nil {
		return err
	}
	t.answer(ctx, "query_accepted", w.SessionID, accepted{ticket.RequestID, ticket.Replayed})
	return nil
}

// stop asks for the end of what runs on a session (S0-44). Where nothing does, there is no success, and no error either.
func (t *talk) stop(ctx context.Context, w word) error {
	quick, done := context.WithTimeout(ctx, answerTime)
	defer done()
	found, err := t.seen(quick, w, auth.ScopeRun)
	if err != nil {
		return err
	}
	stopped, err := t.abort(quick, found, t.socket.Principal().Subject)
	if err != nil {
		return err
	}
	t.answer(ctx, "abort_result", w.SessionID, map[string]bool{"success": stopped})
	return nil
}

// answer sends what is no event. A client that does not take it is no concern of the caller: the socket ends.
func (t *talk) answer(ctx context.Context, kind, sessionID string, data any) {
	text, err := json.Marshal(struct {
		Type      string `json:"type"`
		SessionID string `json:"sessionId,omitempty"`
		Data      any    `json:"data,omitzero"`
	}{kind, sessionID, data})
	if err != nil {
		_ = t.socket.Fault(ctx, err) // nobody can be told, and it is logged
		return
	}
	_ = t.socket.Send(ctx, text)
}

// trouble is what went wrong: the members that an error event of S0 has, and ours.
type trouble struct {
	Error            string      `json:"error"`
	Code             apierr.Code `json:"code"`
	Recoverable      bool        `json:"recoverable"`
	InReplyTo        string      `json:"inReplyTo,omitempty"` // the type of the message
	RetryAfterMs     int64       `json:"retryAfterMs,omitzero"`
	RunningRequestID string      `json:"runningRequestId,omitempty"`
}

// refuse tells the client what went wrong with a message, or with a session that it has joined (no type).
func (t *talk) refuse(ctx context.Context, w word, err error) {
	f := t.socket.Fault(ctx, err)
	if !id.Valid(w.SessionID) {
		w.SessionID = ""
	}
	if len(w.Type) > maxType {
		w.Type = ""
	}
	t.answer(ctx, "error", w.SessionID, trouble{
		f.Message, f.Code, f.Retryable, w.Type, f.RetryAfter.Milliseconds(), f.RequestID,
	})
}
