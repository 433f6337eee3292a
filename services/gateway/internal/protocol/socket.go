package protocol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/coder/websocket"
)

// Limits of a WebSocket.
const (
	pongTime    = 30 * time.Second // to answer a ping; a message that is being handled delays the answer, by Timeout at most
	closeTime   = 5 * time.Second  // to answer a close frame
	maxControls = 100              // pings and pongs of the client between two heartbeats
	maxRefused  = 20               // consecutive messages over the rate limit
	keepBuffer  = 1 << 10          // bytes of a buffer that an idle stream keeps
)

// Socket is a WebSocket (RFC 6455) of an authenticated client, on which each text message is one message of the protocol.
// Receive and CheckRate are for the goroutine that serves it; the other methods are safe for concurrent use.
type Socket struct {
	host      *Host
	route     string
	principal auth.Principal
	conn      *websocket.Conn
	net       net.Conn // under conn
	end       context.CancelCauseFunc
	controls  atomic.Int32 // pings and pongs since the last heartbeat
	refused   int          // consecutive messages that CheckRate has refused
}

// run runs serve and closes the socket when serve returns, or when its context ends.
func (s *Socket) run(ctx context.Context, serve func(context.Context, *Socket) error) {
	ctx, s.end = context.WithCancelCause(ctx)
	var others sync.WaitGroup
	others.Add(1)
	context.AfterFunc(ctx, func() {
		defer others.Done()
		s.close(context.Cause(ctx))
	})
	others.Go(func() { s.keepAlive(ctx) })
	s.end(s.guard(ctx, func() error { return serve(ctx, s) }))
	others.Wait()
}

// guard converts a panic into an error: this goroutine is not one of the HTTP server's.
func (s *Socket) guard(ctx context.Context, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.host.Log.ErrorContext(ctx, "panic", "route", s.route, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = apierr.From(errors.New("panic"))
		}
	}()
	return f()
}

// keepAlive checks at each heartbeat that the key is valid and that the client answers a ping.
func (s *Socket) keepAlive(ctx context.Context) {
	beat := time.NewTicker(s.host.Streamer.Heartbeat())
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		s.controls.Store(0)
		if err := s.alive(ctx); err != nil {
			s.end(err)
			return
		}
	}
}

func (s *Socket) alive(ctx context.Context) error {
	if err := s.checkKey(); err != nil {
		return err
	}
	// A cancelled context would close the connection without a close frame.
	timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), pongTime)
	defer cancel()
	if err := s.conn.Ping(timed); err != nil {
		return websocket.CloseError{Code: websocket.StatusPolicyViolation, Reason: fmt.Sprintf("no answer to a ping within %v", pongTime)}
	}
	return nil
}

func (s *Socket) checkKey() error {
	if s.host.Keys == nil {
		return nil
	}
	return s.host.Keys.Check(s.principal.KeyID, s.host.Bus.Now())
}

// countControl counts a ping or pong of the client, and reports whether it is within the limit.
func (s *Socket) countControl() bool {
	if s.controls.Add(1) <= maxControls {
		return true
	}
	s.end(websocket.CloseError{Code: websocket.StatusPolicyViolation, Reason: "too many pings"})
	return false
}

// close closes the connection with a status from which the client derives whether to reconnect: 1012 and 1001 mean at once.
func (s *Socket) close(cause error) {
	late := time.AfterFunc(closeTime, func() { _ = s.net.Close() }) // Close waits for the rest of a frame of any length
	defer late.Stop()
	status := closeStatus(cause)
	err := s.conn.Close(status.Code, status.Reason)
	s.host.Log.Debug("WebSocket closed", "route", s.route, "code", status.Code, "cause", cause, "error", err)
}

// closeStatus returns the status for the reason why the WebSocket is closed.
func closeStatus(cause error) websocket.CloseError {
	status := func(code websocket.StatusCode, reason string) websocket.CloseError {
		const most = 123 // bytes, by RFC 6455
		return websocket.CloseError{Code: code, Reason: strings.ToValidUTF8(reason[:min(len(reason), most)], "")}
	}
	if closed, ok := errors.AsType[websocket.CloseError](cause); ok {
		return status(closed.Code, closed.Reason)
	}
	switch f, _ := errors.AsType[*apierr.Error](cause); {
	case errors.Is(cause, stream.ErrDraining):
		return status(websocket.StatusServiceRestart, "the gateway restarts: connect again, and resume after your last cursors")
	case errors.Is(cause, stream.ErrTimeout):
		return status(websocket.StatusGoingAway, "it has lasted long: connect again, and resume after your last cursors")
	case errors.Is(cause, stream.ErrRevoked):
		return status(websocket.StatusPolicyViolation, "the API key was revoked")
	case errors.Is(cause, stream.ErrExpired):
		return status(websocket.StatusPolicyViolation, "the API key has expired")
	case f != nil && f.Code == apierr.AuthFailed:
		return status(websocket.StatusPolicyViolation, f.Message)
	case errors.Is(cause, errRead):
		return status(websocket.StatusProtocolError, "what came is against RFC 6455")
	default:
		return status(websocket.StatusInternalError, "an internal error occurred: connect again, and resume after your last cursors")
	}
}

// errRead is the cause of an error of the protocol of WebSockets, or of a lost connection.
var errRead = errors.New("read from the WebSocket")

// Receive returns the client's next message. The socket is closed if none arrives for idle (0 = no limit). After an error
// serve must return.
func (s *Socket) Receive(ctx context.Context, idle time.Duration) ([]byte, error) {
	if idle > 0 {
		defer s.endAfter(idle, websocket.StatusGoingAway, fmt.Sprintf("no message was received within %v", idle))()
	}
	kind, r, err := s.conn.Reader(context.WithoutCancel(ctx)) // a cancelled context would close it without a close frame
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRead, err)
	}
	if kind != websocket.MessageText {
		return nil, websocket.CloseError{Code: websocket.StatusUnsupportedData, Reason: "send JSON as text"}
	}
	bodyTime := s.host.limits.bodyTime
	defer s.endAfter(bodyTime, websocket.StatusPolicyViolation, fmt.Sprintf("a message did not come whole within %v", bodyTime))()
	text, err := io.ReadAll(r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errRead, err)
	case !utf8.Valid(text):
		return nil, websocket.CloseError{Code: websocket.StatusInvalidFramePayloadData, Reason: "a text must be UTF-8"}
	case s.refused >= maxRefused:
		return nil, websocket.CloseError{Code: websocket.StatusPolicyViolation, Reason: "too many messages: wait as long as retryAfterMs says"}
	}
	return text, s.checkKey()
}

// endAfter ends the socket after d, unless the returned function is called before.
func (s *Socket) endAfter(d time.Duration, code websocket.StatusCode, reason string) (stop func() bool) {
	return time.AfterFunc(d, func() { s.end(websocket.CloseError{Code: code, Reason: reason}) }).Stop
}

// CheckRate counts a message against the rate limit, as a request. The error is for the client.
func (s *Socket) CheckRate(ctx context.Context) error {
	err := s.host.CheckRate(ctx, s.principal)
	if err == nil {
		s.refused = 0
		return nil
	}
	s.refused++
	return err
}

// Send sends a message. The socket ends if the client does not receive it in time, or has disconnected.
func (s *Socket) Send(ctx context.Context, text []byte) error {
	timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.host.limits.sendTime) // not ctx: its end would truncate the message
	defer cancel()
	err := s.conn.Write(timed, websocket.MessageText, text)
	if err != nil {
		s.end(err)
	}
	return err
}

// StreamFrames encodes frames and sends each line as a message, until they end or ctx does. It closes them.
func (s *Socket) StreamFrames(ctx context.Context, frames stream.Frames, enc codec.Encoder) error {
	frames = s.host.pace(s.principal.Tenant, frames)
	defer frames.Close()
	return s.guard(ctx, func() error {
		var lines []byte
		for {
			f, err := frames.Next(ctx, s.host.Streamer.Heartbeat())
			switch {
			case errors.Is(err, bus.ErrIdle):
				continue
			case errors.Is(err, io.EOF):
				return s.sendEnd(ctx, enc, err)
			case err == nil:
				lines, err = s.sendFrame(ctx, lines[:0], f, enc)
			}
			if err != nil {
				return err
			}
		}
	})
}

// sendEnd sends the events that the codec adds after the last frame; end is the error with which the frames ended.
func (s *Socket) sendEnd(ctx context.Context, enc codec.Encoder, end error) error {
	line, err := stream.AppendThreadDeleted(nil, enc, end)
	if err != nil || len(line) == 0 {
		return err
	}
	return s.Send(ctx, bytes.TrimSuffix(line, []byte("\n")))
}

// sendFrame sends the events of a frame, and returns the buffer for the next one.
func (s *Socket) sendFrame(ctx context.Context, buffer []byte, f event.Frame, enc codec.Encoder) ([]byte, error) {
	lines, err := enc.Append(buffer, f)
	if err != nil {
		return nil, fmt.Errorf("encode frame at %d: %w", f.First, err)
	}
	s.host.Meter.Sent(ctx, len(f.Names))
	for line := range bytes.Lines(lines) {
		if err := s.Send(ctx, bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return nil, err
		}
	}
	if cap(lines) > keepBuffer {
		return nil, nil
	}
	return lines, nil
}

// Principal is the owner of the client's API key.
func (s *Socket) Principal() auth.Principal { return s.principal }

// Accept stores a request, so that it will run. The key is its idempotency key, "" for none.
func (s *Socket) Accept(ctx context.Context, key string, r Request) (admission.Receipt, error) {
	if err := CheckKey(key); err != nil {
		return admission.Receipt{}, err
	}
	return s.host.accept(ctx, s.principal, s.route, key, r)
}

// CheckKey checks the idempotency key of a message.
func CheckKey(key string) error {
	if len(key) > maxKey {
		return apierr.New(apierr.InvalidMessageFormat, "idempotencyKey is longer than %d bytes", maxKey)
	}
	return nil
}

// HasAgent reports whether the client may address an agent.
func (s *Socket) HasAgent(agentID string) bool { return s.host.HasAgent(s.principal, agentID) }

// CheckStorage returns an error if the client has reached its storage quota.
func (s *Socket) CheckStorage(ctx context.Context) error {
	return s.host.quotas.Store(ctx, s.principal)
}

// Audit logs that the client is about to read a thread's events, or those of one request ("" = all), or was refused.
func (s *Socket) Audit(ctx context.Context, threadID, requestID string, refused error) {
	s.host.audit(ctx, s.principal, reading{s.route, threadID, requestID}, refused)
}

// Error converts an error into one for the client. The details of internal errors are logged instead.
func (s *Socket) Error(ctx context.Context, err error) *apierr.Error {
	return s.host.clientError(ctx, s.route, err)
}
