package native

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native/wire"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a WebSocket.
const (
	maxFollowed = 32               // requests and threads
	messageTime = 15 * time.Second // for handling a message
)

// getSocket serves the WebSocket. It sends the events of the requests and threads that the client follows, each as one line of
// JSON, and one reply to each message of the client, in order; docs/frontend.md lists them. Only replies have the member "type".
func (s *Server) getSocket(x *protocol.Exchange) error {
	return x.Upgrade(func(ctx context.Context, socket *protocol.Socket) error {
		c := &conn{Server: s, socket: socket}
		defer c.followers.StopAll()
		return c.listen(ctx)
	})
}

// conn serves one WebSocket. It is for the goroutine that receives messages.
type conn struct {
	*Server
	socket    *protocol.Socket
	followers protocol.Followers // by name of the target
}

// reply is the reply to a message. A message that fails has a failure instead.
type reply struct {
	Type     string `json:"type"`
	ID       string `json:"id,omitempty"`
	AgentID  string `json:"agentId,omitempty"`
	SteerID  string `json:"steerId,omitempty"`
	Status   string `json:"status,omitempty"`
	Cursor   string `json:"cursor,omitempty"`  // of a thread: where its events start
	Reset    bool   `json:"reset,omitzero"`    // the client's cursor could not be resumed: the events start at the beginning
	Replayed bool   `json:"replayed,omitzero"` // the idempotencyKey was used before: this is what it made then
	wire.Target
}

// failure is the error of a message.
type failure struct {
	Type         string         `json:"type"`
	ID           string         `json:"id,omitempty"`
	RetryAfterMs int64          `json:"retryAfterMs,omitzero"`
	Error        jsontext.Value `json:"error"` // an error event
}

// end says that the events of a target have ended: with the terminal event of a request, the deletion of a thread, or an error.
type end struct {
	Type  string         `json:"type"`
	Error jsontext.Value `json:"error,omitempty"` // an error event
	wire.Target
}

// listen handles messages until the socket ends.
func (c *conn) listen(ctx context.Context) error {
	for {
		idle := c.Config.Gateway.Limits.IdleTime.Or(2 * time.Minute)
		if c.followers.Count("") > 0 {
			idle = 0
		}
		text, err := c.socket.Receive(ctx, idle)
		if err != nil {
			return err
		}
		messageID, message, err := wire.DecodeMessage(text)
		if refused := c.socket.CheckRate(ctx); refused != nil {
			err = refused
		}
		if err == nil {
			err = c.handle(ctx, messageID, message)
		}
		if err != nil {
			f := c.socket.Error(ctx, err)
			c.send(ctx, failure{"error", messageID, f.RetryAfter.Milliseconds(), c.errorEvent(f, wire.Target{})})
		}
	}
}

// handle handles a message and replies to it. The caller replies with its error.
func (c *conn) handle(ctx context.Context, messageID string, message any) error {
	switch m := message.(type) {
	case *wire.Follow:
		return c.follow(ctx, *m)
	case *wire.Unfollow:
		c.followers.Stop(nameOf(m.Target))
		c.send(ctx, reply{Type: "reply", ID: messageID, Target: m.Target})
		return nil
	}
	if p := c.socket.Principal(); !p.May(auth.ScopeRun) {
		return apierr.New(apierr.AuthFailed, "the API key lacks the scope %q", auth.ScopeRun)
	}
	timed, done := context.WithTimeout(ctx, messageTime)
	defer done()
	answer, err := reply{}, error(nil)
	switch m := message.(type) {
	case *wire.Start:
		return c.start(ctx, *m)
	case *wire.Steer:
		answer, err = c.steerRequest(timed, *m)
	case *wire.Abort:
		answer, err = c.abortRequest(timed, *m)
	}
	if err != nil {
		return err
	}
	answer.Type, answer.ID = "reply", messageID
	c.send(ctx, answer)
	return nil
}

// steerRequest adds messages to a request that runs.
func (c *conn) steerRequest(ctx context.Context, m wire.Steer) (reply, error) {
	if err := protocol.CheckKey(m.IdempotencyKey); err != nil {
		return reply{}, err
	}
	request, err := wire.DecodeMember(m.Request)
	if err == nil {
		err = checkSteer(request)
	}
	if err != nil {
		return reply{}, err
	}
	r, err := c.Guard.Request(ctx, c.socket.Principal(), m.RequestID)
	if err != nil {
		return reply{}, err
	}
	id := steerID(r, m.IdempotencyKey)
	replayed, err := c.steer(ctx, r, id, request.Messages, c.socket.CheckStorage(ctx))
	return reply{SteerID: id, Status: "accepted", Replayed: replayed, Target: wire.Target{RequestID: m.RequestID}}, err
}

// abortRequest asks the runner to abort a request.
func (c *conn) abortRequest(ctx context.Context, m wire.Abort) (reply, error) {
	r, err := c.Guard.Request(ctx, c.socket.Principal(), m.RequestID)
	if err != nil {
		return reply{}, err
	}
	err = c.abort(ctx, r, m.Reason)
	return reply{Status: "aborting", Target: wire.Target{RequestID: m.RequestID}}, err
}

// errorEvent returns an error as an error event.
func (c *conn) errorEvent(f *apierr.Error, of wire.Target) jsontext.Value {
	_, body := c.codec.EncodeError(codec.ErrorResponse{Error: f, RequestID: of.RequestID, ThreadID: of.ThreadID, At: c.Bus.Now()})
	return body
}

// send sends a message that is not an event. If the client does not receive it in time, the socket ends.
func (c *conn) send(ctx context.Context, message any) {
	text, err := json.Marshal(message)
	if err != nil {
		_ = c.socket.Error(ctx, err) // it is logged
		return
	}
	_ = c.socket.Send(ctx, text)
}
