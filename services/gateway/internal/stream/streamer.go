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
	// ErrTruncated says that a response has begun and cannot be ended well: the caller must abort its connection.
	ErrTruncated = errors.New("the stream was cut before its end")
	// ErrDisconnected says the same, because the client closed the connection.
	ErrDisconnected = fmt.Errorf("the client left: %w", ErrTruncated)

	// What ends the context of those who are here: see [Streamer.Track].
	ErrTimeout  = errors.New("the stream lasted too long")
	ErrDraining = errors.New("the gateway is draining")
	ErrRevoked  = errors.New("the API key was revoked")
	ErrExpired  = errors.New("the API key has expired")

	errConnectionLost = errors.New("the connection is gone")
	errPanicked       = errors.New("panic")
)

// Streamer writes streams, and knows which are open. It is safe for concurrent use.
type Streamer struct {
	heartbeat time.Duration
	timeout   time.Duration
	meter     *metrics.Instruments
	expiry    func(keyID string) time.Time // zero = never; nil = no key expires
	now       func() time.Time             // the clock of expiry

	detached sync.WaitGroup

	mu       sync.Mutex
	draining bool // nothing is parked any more
	open     map[*entry]struct{}
}

// entry is an open stream.
type entry struct {
	keyID   string
	end     context.CancelCauseFunc
	timer   *time.Timer
	expires *time.Timer // with the key; nil = the key does not expire
}

// NewStreamer returns a streamer that sends a heartbeat into streams that are quiet for so long, and ends those that
// last longer than timeout.
func NewStreamer(heartbeat, timeout time.Duration, meter *metrics.Instruments) *Streamer {
	return &Streamer{heartbeat: heartbeat, timeout: timeout, meter: meter, now: time.Now, open: map[*entry]struct{}{}}
}

// ExpireWith lets streams end when the key expires that opened them. Expiry returns that time for a key's id, the zero
// time for never, and now is the clock that decides whether a key has expired. It is for before the first stream; a key that
// gets another time later needs [Streamer.Expire].
func (s *Streamer) ExpireWith(expiry func(keyID string) time.Time, now func() time.Time) {
	s.expiry, s.now = expiry, now
}

// Response is what a client is to read.
type Response struct {
	Encoder      codec.Encoder
	Frames       Frames // closed when the stream has ended
	DeferHeaders bool   // write the status with the first event, or at the latest with the first heartbeat
	KeyID        string // the key that opened the stream
	Prelude      []byte // written before the first event
	// Ended is called once, when the stream has ended: with what Serve returns, or what it would have returned had it
	// not returned before. nil = nobody wants to know.
	Ended func(error)
}

// Serve writes the answer until its frames end. An error that is no [ErrTruncated] means that nothing was written: it is for
// the client, as a status and a body. Serve may return nil before the stream has ended: one that waits is parked (see
// park), and needs neither w nor r from then on.
func (s *Streamer) Serve(w http.ResponseWriter, r *http.Request, a Response) (err error) {
	if r.ProtoMajor == 1 && !r.Close {
		w.Header().Set("Connection", "keep-alive") // as S2 shows it
	}
	now := time.Now()
	c := &connection{status: w, sink: newResponseSink(w, r), enc: a.Encoder, buffer: a.Prelude, meter: s.meter, began: now, wrote: now}
	s.meter.Opened(r.Context())
	ctx, e := s.register(r.Context(), a.KeyID, s.timeout)
	parked := false
	defer func() {
		s.unregister(e)
		if !parked {
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
		if parked = s.detach(w, r, c, a); parked {
			return nil
		}
		c.attached = true
		err = s.pump(ctx, c, a.Frames)
	}
	if err == nil {
		return nil
	}
	return s.cut(ctx, c, err)
}

// ended lets go of what a stream held.
func (s *Streamer) ended(ctx context.Context, a Response, err error) {
	a.Frames.Close()
	s.meter.Closed(ctx)
	if a.Ended != nil {
		a.Ended(err)
	}
}

// pump moves frames to the connection until they end, or until the stream may be parked (errQuiet).
func (s *Streamer) pump(ctx context.Context, c *connection, frames Frames) error {
	for {
		wait := max(s.heartbeat-time.Since(c.wrote), time.Millisecond)
		parkable := c.open && !c.attached
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
		case errors.Is(err, bus.ErrIdle):
			if time.Since(c.wrote) < s.heartbeat {
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

// cut ends a stream that cannot go on. What the client is told depends on whether it has been told anything before.
func (s *Streamer) cut(ctx context.Context, c *connection, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // a slow client; the server takes it for one that left
		return errors.Join(ErrTruncated, err)
	case errors.Is(cause, ErrDraining) && c.open:
		c.buffer = c.enc.AppendControl(c.buffer, codec.Control{Comment: "draining", Retry: jitter(500*time.Millisecond, 2500*time.Millisecond)})
		return errors.Join(ErrTruncated, ErrDraining, c.extendDeadline(time.Now(), drainWriteTimeout), c.write())
	case errors.Is(cause, ErrDraining):
		return apierr.New(apierr.Unavailable, "the gateway is shutting down; the request runs on: read its stream to follow it")
	case errors.Is(cause, ErrTimeout) && !c.open:
		return apierr.New(apierr.StreamTimeout, "there is no answer after %v; the request goes on: read its stream to follow it", s.timeout)
	case errors.Is(cause, ErrRevoked) && !c.open:
		return apierr.Wrap(ErrRevoked, apierr.AuthFailed, "the API key was revoked just now")
	case errors.Is(cause, ErrExpired) && !c.open:
		return apierr.Wrap(ErrExpired, apierr.AuthFailed, "the API key expired just now")
	case cause != nil && !isServerCause(cause), errors.Is(err, errConnectionLost):
		return errors.Join(ErrDisconnected, err)
	case c.open:
		return errors.Join(ErrTruncated, cause, err)
	}
	return err
}

func isServerCause(cause error) bool {
	return errors.Is(cause, ErrDraining) || errors.Is(cause, ErrTimeout) || errors.Is(cause, ErrRevoked) || errors.Is(cause, ErrExpired)
}

// register registers a stream that may last so long. Its context ends when the client leaves, when it has lasted that long,
// when its key expires, and when Drain or Revoke says so. Forget it at its end.
func (s *Streamer) register(ctx context.Context, keyID string, limit time.Duration) (context.Context, *entry) {
	ctx, end := context.WithCancelCause(ctx)
	e := &entry{keyID: keyID, end: end, timer: time.AfterFunc(limit, func() { end(ErrTimeout) })}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[e] = struct{}{}
	if s.draining {
		end(ErrDraining)
	}
	if s.expiry != nil { // asked behind the registration, so that Expire misses none that has the time before
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

// Drain ends every stream, those to come included, so that clients go elsewhere. It waits for those that are parked:
// nobody else does.
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

// Expire ends the streams that a key opened at a time, which takes the place of the one that it had; the zero time is
// never.
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
