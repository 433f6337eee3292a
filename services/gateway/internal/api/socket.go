package api

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
	pongTime    = 30 * time.Second // to answer a ping; what is being answered holds up the answer, answerWithin at most
	closeTime   = 5 * time.Second  // to answer when it is closed
	maxControls = 100              // pings and pongs of the client between two heartbeats
	maxRefused  = 20               // messages in a row that are over the rate
	keepLines   = 1 << 10          // bytes of a buffer that a quiet stream holds on to
)

// Socket is a WebSocket (RFC 6455) whose client is known: a text each way is a message. Receive and Admit are for the
// goroutine that serves it, everything else for all.
type Socket struct {
	api       *API
	route     string
	principal auth.Principal
	conn      *websocket.Conn
	net       net.Conn // under conn
	end       context.CancelCauseFunc
	controls  atomic.Int32 // pings and pongs since the last heartbeat
	refused   int          // messages in a row that Admit has refused
}

// run serves the socket to its end, which comes when serve returns, or when its context ends.
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

// guard makes an error of a panic: there is no server around that would.
func (s *Socket) guard(ctx context.Context, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.api.Log.ErrorContext(ctx, "panic", "route", s.route, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = apierr.From(errors.New("panic"))
		}
	}()
	return f()
}

// keepAlive looks, heartbeat by heartbeat, whether the key is still good and the client still there.
func (s *Socket) keepAlive(ctx context.Context) {
	beat := time.NewTicker(s.api.Streamer.Heartbeat())
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
	// A context that ends would end the connection without a word.
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), pongTime)
	defer cancel()
	if err := s.conn.Ping(patient); err != nil {
		return websocket.CloseError{Code: websocket.StatusPolicyViolation, Reason: fmt.Sprintf("no answer to a ping within %v", pongTime)}
	}
	return nil
}

func (s *Socket) checkKey() error {
	if s.api.Keys == nil {
		return nil
	}
	return s.api.Keys.Check(s.principal.KeyID, s.api.Bus.Now())
}

// control counts what the client sends that is no message, and reports whether it may.
func (s *Socket) control() bool {
	if s.controls.Add(1) <= maxControls {
		return true
	}
	s.end(websocket.CloseError{Code: websocket.StatusPolicyViolation, Reason: "too many pings"})
	return false
}

// close ends the connection, with a code that says whether it is worth coming back: 1012 and 1001 mean yes, at once.
func (s *Socket) close(cause error) {
	late := time.AfterFunc(closeTime, func() { _ = s.net.Close() }) // Close waits for the rest of a frame, however long it is
	defer late.Stop()
	bye := farewell(cause)
	err := s.conn.Close(bye.Code, bye.Reason)
	s.api.Log.Debug("WebSocket closed", "route", s.route, "code", bye.Code, "cause", cause, "error", err)
}

func farewell(cause error) websocket.CloseError {
	said := func(code websocket.StatusCode, reason string) websocket.CloseError {
		const most = 123 // bytes, by RFC 6455
		return websocket.CloseError{Code: code, Reason: strings.ToValidUTF8(reason[:min(len(reason), most)], "")}
	}
	if own, ok := errors.AsType[websocket.CloseError](cause); ok {
		return said(own.Code, own.Reason)
	}
	switch told, _ := errors.AsType[*apierr.Error](cause); {
	case errors.Is(cause, stream.ErrDraining):
		return said(websocket.StatusServiceRestart, "the gateway restarts: connect again, and join after your last cursors")
	case errors.Is(cause, stream.ErrTimeout):
		return said(websocket.StatusGoingAway, "it has lasted long: connect again, and join after your last cursors")
	case errors.Is(cause, stream.ErrRevoked):
		return said(websocket.StatusPolicyViolation, "the API key was revoked")
	case errors.Is(cause, stream.ErrExpired):
		return said(websocket.StatusPolicyViolation, "the API key has expired")
	case told != nil && told.Code == apierr.AuthFailed:
		return said(websocket.StatusPolicyViolation, told.Message)
	case errors.Is(cause, errFraming):
		return said(websocket.StatusProtocolError, "what came is against RFC 6455")
	default:
		return said(websocket.StatusInternalError, "an internal error occurred: connect again, and join after your last cursors")
	}
}

// errFraming says that what came could not be read: it is no WebSocket's, or there is no connection any more.
var errFraming = errors.New("read from the WebSocket")

// Receive returns the client's next message. Without one for so long (0 = any time) the socket ends. An error is its end.
func (s *Socket) Receive(ctx context.Context, idle time.Duration) ([]byte, error) {
	if idle > 0 {
		defer s.endAfter(idle, websocket.StatusGoingAway, fmt.Sprintf("no session was joined and nothing said for %v", idle))()
	}
	kind, r, err := s.conn.Reader(context.WithoutCancel(ctx)) // a context that ends would end it without a word
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFraming, err)
	}
	if kind != websocket.MessageText {
		return nil, websocket.CloseError{Code: websocket.StatusUnsupportedData, Reason: "send JSON as text"}
	}
	bodyTime := s.api.limits.bodyTime
	defer s.endAfter(bodyTime, websocket.StatusPolicyViolation, fmt.Sprintf("a message did not come whole within %v", bodyTime))()
	text, err := io.ReadAll(r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errFraming, err)
	case !utf8.Valid(text):
		return nil, websocket.CloseError{Code: websocket.StatusInvalidFramePayloadData, Reason: "a text must be UTF-8"}
	case s.refused >= maxRefused:
		return nil, websocket.CloseError{Code: websocket.StatusPolicyViolation, Reason: "too many messages: wait as long as retryAfterMs says"}
	}
	return text, s.checkKey()
}

// endAfter ends the socket in so long, unless the returned function is called before.
func (s *Socket) endAfter(d time.Duration, code websocket.StatusCode, reason string) (stop func() bool) {
	return time.AfterFunc(d, func() { s.end(websocket.CloseError{Code: code, Reason: reason}) }).Stop
}

// Admit counts a message as a request is counted. The error is for the client.
func (s *Socket) Admit(ctx context.Context) error {
	err := s.api.count(ctx, s.principal)
	if err == nil {
		s.refused = 0
		return nil
	}
	s.refused++
	return err
}

// Send sends a message. When the client does not take it in time, or is gone, the socket ends.
func (s *Socket) Send(ctx context.Context, text []byte) error {
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.api.limits.sendTime) // not ctx: half a message would be the last
	defer cancel()
	err := s.conn.Write(patient, websocket.MessageText, text)
	if err != nil {
		s.end(err)
	}
	return err
}

// Pour sends what the encoder makes of frames, a line a message, until they end or ctx does. It closes them.
func (s *Socket) Pour(ctx context.Context, frames stream.Frames, enc codec.Encoder) error {
	frames = s.api.paced(s.principal.Tenant, frames)
	defer frames.Close()
	return s.guard(ctx, func() error {
		var lines []byte
		for {
			f, err := frames.Next(ctx, s.api.Streamer.Heartbeat())
			switch {
			case errors.Is(err, bus.ErrIdle):
				continue
			case errors.Is(err, io.EOF):
				return s.part(ctx, enc, err)
			case err == nil:
				lines, err = s.pour(ctx, lines[:0], f, enc)
			}
			if err != nil {
				return err
			}
		}
	})
}

// part sends what is left to say when the frames have ended, with end.
func (s *Socket) part(ctx context.Context, enc codec.Encoder, end error) error {
	line, err := stream.AppendThreadDeleted(nil, enc, end)
	if err != nil || len(line) == 0 {
		return err
	}
	return s.Send(ctx, bytes.TrimSuffix(line, []byte("\n")))
}

// pour sends what comes of a frame, and returns the buffer for the next one.
func (s *Socket) pour(ctx context.Context, buffer []byte, f event.Frame, enc codec.Encoder) ([]byte, error) {
	lines, err := enc.Append(buffer, f)
	if err != nil {
		return nil, fmt.Errorf("encode frame at %d: %w", f.First, err)
	}
	s.api.Meter.Sent(ctx, len(f.Names))
	for line := range bytes.Lines(lines) {
		if err := s.Send(ctx, bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return nil, err
		}
	}
	if cap(lines) > keepLines {
		return nil, nil
	}
	return lines, nil
}

// Principal is who is connected.
func (s *Socket) Principal() auth.Principal { return s.principal }

// Accept has a request taken. The key is an Idempotency-Key, "" for none, and the body what a retry must bring again.
func (s *Socket) Accept(ctx context.Context, agentID string, r event.AgentRequest, key string, body []byte) (admission.Receipt, error) {
	if len(key) > maxKey {
		return admission.Receipt{}, apierr.New(apierr.InvalidMessageFormat, "idempotencyKey is longer than %d bytes", maxKey)
	}
	in := received{r, key, admission.Hash(agentID, body)}
	return s.api.admitted(ctx, s.api.call(s.principal, s.route, agentID, in))
}

// Fault is what the client may know of an error. What it may not know is logged.
func (s *Socket) Fault(ctx context.Context, err error) *apierr.Error {
	f := apierr.From(err)
	if f.Code == apierr.Internal || f.Code == apierr.Unavailable {
		s.api.Log.ErrorContext(ctx, "message failed", "route", s.route, "error", err)
	}
	return f
}
