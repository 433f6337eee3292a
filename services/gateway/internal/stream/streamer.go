package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
)

var (
	// ErrTruncated reports that a response has started and cannot be completed: the caller must abort its connection.
	ErrTruncated = errors.New("the stream was cut before its end")
	// ErrDisconnected is ErrTruncated for a client that has closed the connection.
	ErrDisconnected = fmt.Errorf("the client left: %w", ErrTruncated)

	// The causes with which the context of a stream ends: see [Streamer.Track].
	ErrTimeout  = errors.New("the stream lasted too long")
	ErrDraining = errors.New("the gateway is draining")
	ErrRevoked  = errors.New("the API key was revoked")
	ErrExpired  = errors.New("the API key has expired")

	// ErrNotStarted reports that the first event did not come within [Response.StartTimeout]. Nothing has been written.
	ErrNotStarted = errors.New("the request was not started in time")

	errConnectionLost = errors.New("the connection is gone")
	errPanicked       = errors.New("panic")
)

// Streamer writes streams, and keeps a list of those that are open. It is safe for concurrent use.
type Streamer struct {
	heartbeat time.Duration
	timeout   time.Duration
	meter     *metrics.Instruments
	expiry    func(keyID string) time.Time // returns the expiry of a key; zero = never; nil = keys do not expire
	now       func() time.Time             // the clock of expiry

	detached sync.WaitGroup

	mu       sync.Mutex
	draining bool // no more streams are detached
	open     map[*entry]struct{}
}

// entry is an open stream.
type entry struct {
	keyID   string
	end     context.CancelCauseFunc
	timer   *time.Timer
	expires *time.Timer // ends the stream when the key expires; nil = the key does not expire
}

// NewStreamer returns a streamer that sends a heartbeat to streams that are idle for that time, and ends streams that
// last longer than timeout.
func NewStreamer(heartbeat, timeout time.Duration, meter *metrics.Instruments) *Streamer {
	return &Streamer{heartbeat: heartbeat, timeout: timeout, meter: meter, now: time.Now, open: map[*entry]struct{}{}}
}

// ExpireWith ends streams when the key expires that opened them. expiry returns the time for a key's id, zero for
// never, and now is the clock for comparisons. It must be called before the first stream. If the expiry of a key
// changes later, call [Streamer.Expire].
func (s *Streamer) ExpireWith(expiry func(keyID string) time.Time, now func() time.Time) {
	s.expiry, s.now = expiry, now
}

// Response is a stream to write.
type Response struct {
	Encoder      codec.Encoder
	Frames       Frames // closed when the stream has ended
	DeferHeaders bool   // write the status with the first event, or with the first heartbeat if that is earlier
	// StartTimeout, with DeferHeaders, replaces the first heartbeat: if no event comes within it, Serve returns an
	// ErrNotStarted. 0 = none.
	StartTimeout time.Duration
	KeyID        string // the key that opened the stream
	Prelude      []byte // written before the first event
	// Ended is called once when the stream has ended, with the error that Serve returns or, for a detached stream,
	// would have returned. nil = it is not called.
	Ended func(error)
}

// Serve writes the response until its frames end. If the error is not an [ErrTruncated], nothing has been written: the
// caller sends it to the client as a status and a body. Serve may return nil before the stream has ended: an idle
// stream is detached (see detach), and no longer uses w and r.
func (s *Streamer) Serve(w http.ResponseWriter, r *http.Request, a Response) (err error) {
	if r.ProtoMajor == 1 && !r.Close {
		w.Header().Set("Connection", "keep-alive") // as the agent event protocol shows it
	}
	now := time.Now()
	c := &connection{status: w, sink: newResponseSink(w, r), enc: a.Encoder, buffer: a.Prelude, meter: s.meter, startedAt: now, lastWrite: now}
	if a.DeferHeaders && a.StartTimeout > 0 {
		c.startBy = now.Add(a.StartTimeout)
	}
	s.meter.Opened(r.Context())
	ctx, e := s.register(r.Context(), a.KeyID, s.timeout)
	detached := false
	defer func() {
		s.unregister(e)
		if !detached {
			s.ended(ctx, a, err)
		}
	}()
	if !a.DeferHeaders {
		c.start()
		err = c.write()
	}
	if err == nil {
		err = s.pump(ctx, c, a.Frames)
	}
	if errors.Is(err, errIdle) {
		if detached = s.detach(w, r, c, a); detached {
			return nil
		}
		c.attached = true
		err = s.pump(ctx, c, a.Frames)
	}
	if err == nil {
		return nil
	}
	return s.endEarly(ctx, c, err)
}

// ended releases the resources of a stream.
func (s *Streamer) ended(ctx context.Context, a Response, err error) {
	a.Frames.Close()
	s.meter.Closed(ctx)
	if a.Ended != nil {
		a.Ended(err)
	}
}

// pump copies frames to the connection until they end, or until the stream may be detached (errIdle).
func (s *Streamer) pump(ctx context.Context, c *connection, frames Frames) error {
	for {
		wait := max(s.heartbeat-time.Since(c.lastWrite), time.Millisecond)
		mustStart := !c.headersWritten && !c.startBy.IsZero()
		if mustStart {
			wait = max(time.Until(c.startBy), time.Millisecond)
		}
		parkable := c.headersWritten && !c.attached
		if parkable {
			wait = min(wait, detachAfter)
		}
		if c.unsent {
			wait = min(wait, sendAfter)
		}
		f, err := frames.Next(ctx, wait)
		switch {
		case err == nil:
			err = c.add(ctx, f, frames.Ready())
		case errors.Is(err, bus.ErrIdle) && c.unsent:
			err = c.write()
		case errors.Is(err, bus.ErrIdle) && parkable:
			return errIdle
		case errors.Is(err, bus.ErrIdle) && mustStart:
			if time.Now().Before(c.startBy) {
				continue
			}
			return notStarted(c.startBy.Sub(c.startedAt))
		case errors.Is(err, bus.ErrIdle):
			if time.Since(c.lastWrite) < s.heartbeat {
				continue
			}
			err = c.heartbeat()
			c.releaseBuffers()
		case errors.Is(err, io.EOF):
			return c.end(err)
		}
		if err != nil {
			return err
		}
	}
}

// endEarly ends a stream that cannot continue. If the response has not started, the error is for the client.
func (s *Streamer) endEarly(ctx context.Context, c *connection, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // a slow client; the server treats it like one that has disconnected
		return errors.Join(ErrTruncated, err)
	case errors.Is(cause, ErrDraining) && c.headersWritten:
		c.buffer = c.enc.AppendControl(c.buffer, codec.Control{Comment: "draining", Retry: jitter(500*time.Millisecond, 2500*time.Millisecond)})
		return errors.Join(ErrTruncated, ErrDraining, c.extendDeadline(time.Now(), drainWriteTimeout), c.write())
	case errors.Is(cause, ErrDraining):
		return apierr.New(apierr.Unavailable, "the gateway is shutting down; the request runs on: read its stream to follow it")
	case errors.Is(cause, ErrTimeout) && !c.headersWritten:
		return apierr.New(apierr.StreamTimeout, "no response within %v; the request continues: read its stream to follow it", s.timeout)
	case errors.Is(cause, ErrRevoked) && !c.headersWritten:
		return apierr.Wrap(ErrRevoked, apierr.AuthFailed, "the API key was revoked just now")
	case errors.Is(cause, ErrExpired) && !c.headersWritten:
		return apierr.Wrap(ErrExpired, apierr.AuthFailed, "the API key expired just now")
	case cause != nil && !isServerCause(cause), errors.Is(err, errConnectionLost):
		return errors.Join(ErrDisconnected, err)
	case c.headersWritten:
		return errors.Join(ErrTruncated, cause, err)
	}
	return err
}

func isServerCause(cause error) bool {
	return errors.Is(cause, ErrDraining) || errors.Is(cause, ErrTimeout) || errors.Is(cause, ErrRevoked) || errors.Is(cause, ErrExpired)
}

// register registers a stream that may last for limit. Its context ends when the client disconnects, after limit, when
// its key expires, and by Drain or Revoke. Call unregister at its end.
func (s *Streamer) register(ctx context.Context, keyID string, limit time.Duration) (context.Context, *entry) {
	ctx, end := context.WithCancelCause(ctx)
	e := &entry{keyID: keyID, end: end, timer: time.AfterFunc(limit, func() { end(ErrTimeout) })}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[e] = struct{}{}
	if s.draining {
		end(ErrDraining)
	}
	if s.expiry != nil { // read after the registration, so that no change of the expiry is missed
		s.expireAt(e, s.expiry(keyID))
	}
	return ctx, e
}

// expireAt must be called with mu held.
func (s *Streamer) expireAt(e *entry, at time.Time) {
	if e.expires != nil {
		e.expires.Stop()
		e.expires = nil
	}
	if !at.IsZero() {
		e.expires = time.AfterFunc(at.Sub(s.now()), func() { e.end(ErrExpired) })
	}
}

func (s *Streamer) unregister(e *entry) {
	s.mu.Lock()
	delete(s.open, e)
	s.expireAt(e, time.Time{})
	s.mu.Unlock()
	e.timer.Stop()
	e.end(nil)
}

// Drain ends every stream, including later ones, so that clients change to another gateway. It waits for detached
// streams, for which the HTTP server does not wait.
func (s *Streamer) Drain() {
	s.mu.Lock()
	s.draining = true
	for e := range s.open {
		e.end(ErrDraining)
	}
	s.mu.Unlock()
	s.detached.Wait()
}

// Draining reports whether Drain was called.
func (s *Streamer) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// Expire changes the time at which the streams of a key end; zero = never.
func (s *Streamer) Expire(keyID string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.open {
		if e.keyID == keyID {
			s.expireAt(e, at)
		}
	}
}

// Revoke ends the streams that a key opened.
func (s *Streamer) Revoke(keyID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.open {
		if e.keyID == keyID {
			e.end(ErrRevoked)
		}
	}
}

func notStarted(after time.Duration) error {
	return apierr.Wrap(ErrNotStarted, apierr.StreamTimeout,
		"no runner has started the request within %v; it is aborted: send it again, with another Idempotency-Key", after)
}
