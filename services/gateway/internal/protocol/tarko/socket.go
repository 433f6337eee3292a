package tarko

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/go-json-experiment/json"
)

// Limits of a WebSocket.
const (
	maxJoined     = 32               // sessions
	handleTimeout = 15 * time.Second // for handling a message
	maxType       = 40               // bytes of a type that an error repeats
)

// getSocket serves the WebSocket. It sends the events of the sessions that the client has joined, and one reply to each message of
// the client, in order; docs/tarko.md lists them.
// The events are nested by default: only the Tarko agent protocol has a WebSocket.
func (s *Server) getSocket(x *protocol.Exchange) error {
	d := s.encodings.messagesNested
	if x.Query().Has("format") {
		var err error
		if d, err = choose(x, s.encodings.messages, s.encodings.messagesNested); err != nil {
			return err
		}
	}
	return x.Upgrade(func(ctx context.Context, socket *protocol.Socket) error {
		t := &wsConn{Server: s, socket: socket, codec: d}
		defer t.sessions.StopAll()
		return t.listen(ctx)
	})
}

// wsConn serves one WebSocket. It is for the goroutine that receives messages.
type wsConn struct {
	*Server
	socket   *protocol.Socket
	codec    codec.Codec
	sessions protocol.Followers // that the client has joined
}

// clientMessage is a message of the client. After and IdempotencyKey are extensions of Tarko's protocol.
type clientMessage struct {
	Type           string `json:"type"`
	SessionID      string `json:"sessionId"`
	After          string `json:"after"`          // a cursor, or 0 for all stored events
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

// listen handles messages until the socket ends.
func (t *wsConn) listen(ctx context.Context) error {
	for {
		idle := t.Config.Gateway.Limits.IdleTime.Or(2 * time.Minute)
		if t.sessions.Count("") > 0 {
			idle = 0
		}
		text, err := t.socket.Receive(ctx, idle)
		if err != nil {
			return err
		}
		var w clientMessage
		if err := t.handle(ctx, text, &w); err != nil {
			t.sendError(ctx, w, err)
		}
	}
}

// handle handles a message and replies to it. The caller replies with its error.
func (t *wsConn) handle(ctx context.Context, text []byte, w *clientMessage) error {
	if err := t.socket.CheckRate(ctx); err != nil {
		return err
	}
	if err := decode(text, w); err != nil {
		return err
	}
	switch w.Type {
	case joinSession:
		return t.subscribe(ctx, *w)
	case leaveSession:
		return t.unsubscribe(ctx, *w)
	case sendQuery:
		return t.query(ctx, *w, text)
	case abortQuery:
		return t.abortQuery(ctx, *w)
	case ping:
		t.send(ctx, "pong", "", nil)
		return nil
	}
	return invalid("type=%.40q: use %s, %s, %s, %s or %s", w.Type, joinSession, leaveSession, sendQuery, abortQuery, ping)
}

// authorize returns the session of a message, if the client owns it and its key has the scope.
func (t *wsConn) authorize(ctx context.Context, w clientMessage, scope auth.Scope) (session, error) {
	p := t.socket.Principal()
	if !p.May(scope) {
		return session{}, apierr.New(apierr.AuthFailed, "the API key lacks the scope %q", scope)
	}
	if w.SessionID == "" {
		return session{}, invalid("Session ID is required")
	}
	return t.find(ctx, p, w.SessionID)
}

// accepted is the reply to a query.
type accepted struct {
	RequestID string `json:"requestId"`
	Replayed  bool   `json:"replayed,omitzero"` // the idempotencyKey was used before: this is the request that it made then
}

// query starts a query. All clients that have joined the session receive its events; it continues if they disconnect.
func (t *wsConn) query(ctx context.Context, w clientMessage, text []byte) error {
	timed, done := context.WithTimeout(ctx, handleTimeout)
	defer done()
	found, err := t.authorize(timed, w, auth.ScopeRun)
	if err != nil {
		return err
	}
	meta, err := t.metadata(timed, found)
	if err != nil {
		return err
	}
	q, err := t.newQuery(meta, text)
	if err == nil {
		err = t.resolveTyped(timed, found, &q.request)
	}
	if err != nil {
		return err
	}
	ticket, err := t.socket.Accept(timed, w.IdempotencyKey, protocol.Request{
		AgentID: q.agentID, Request: q.request, Target: q.agentID, Body: text,
	})
	if err != nil {
		return err
	}
	t.send(ctx, "query_accepted", w.SessionID, accepted{ticket.RequestID, ticket.Replayed})
	return nil
}

// abortQuery aborts the query that runs in a session. If none runs, it replies with success false and not with an error.
func (t *wsConn) abortQuery(ctx context.Context, w clientMessage) error {
	timed, done := context.WithTimeout(ctx, handleTimeout)
	defer done()
	found, err := t.authorize(timed, w, auth.ScopeRun)
	if err != nil {
		return err
	}
	stopped, err := t.abort(timed, found, t.socket.Principal().Subject)
	if err != nil {
		return err
	}
	t.send(ctx, "abort_result", w.SessionID, map[string]bool{"success": stopped})
	return nil
}

// send sends a message that is not an event. If the client does not receive it in time, the socket ends.
func (t *wsConn) send(ctx context.Context, kind, sessionID string, data any) {
	text, err := json.Marshal(struct {
		Type      string `json:"type"`
		SessionID string `json:"sessionId,omitempty"`
		Data      any    `json:"data,omitzero"`
	}{kind, sessionID, data})
	if err != nil {
		_ = t.socket.Error(ctx, err) // it is logged
		return
	}
	_ = t.socket.Send(ctx, text)
}

// errorPayload has the fields of Tarko's error event, and extensions.
type errorPayload struct {
	Error            string      `json:"error"`
	Code             apierr.Code `json:"code"`
	Recoverable      bool        `json:"recoverable"`
	InReplyTo        string      `json:"inReplyTo,omitempty"` // the type of the message
	RetryAfterMs     int64       `json:"retryAfterMs,omitzero"`
	RunningRequestID string      `json:"runningRequestId,omitempty"`
}

// sendError sends the error of a message, or of the stream of a session (no type).
func (t *wsConn) sendError(ctx context.Context, w clientMessage, err error) {
	f := t.socket.Error(ctx, err)
	if !id.Valid(w.SessionID) {
		w.SessionID = ""
	}
	if len(w.Type) > maxType {
		w.Type = ""
	}
	t.send(ctx, "error", w.SessionID, errorPayload{
		f.Message, f.Code, f.Retryable, w.Type, f.RetryAfter.Milliseconds(), f.RequestID,
	})
}
