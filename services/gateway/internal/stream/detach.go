package stream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// An idle stream is detached: it leaves its handler and continues on the bare connection. The memory that a server
// holds for a request (buffers, headers, the stacks of all handlers) is three times the memory that a stream needs
// while it waits for a model, a person or an hour-long approval, and there are many such streams.

// detachAfter is how long a stream must be idle. Streams that are read at once are not detached.
const detachAfter = 20 * time.Millisecond

// errIdle reports that a stream may be detached now.
var errIdle = errors.New("the stream is quiet")

// detach starts a goroutine that serves the stream and reports true; otherwise the caller continues to serve it.
//
//nolint:contextcheck // the request's context ends with its handler, and would keep all of the request
func (s *Streamer) detach(w http.ResponseWriter, r *http.Request, c *connection, a Response) bool {
	if !s.addDetached() {
		return false
	}
	out := hijack(w, r)
	if out == nil {
		s.detached.Done()
		return false
	}
	span := trace.SpanContextFromContext(r.Context())
	ctx := trace.ContextWithSpanContext(context.Background(), span)
	ctx, e := s.register(ctx, a.KeyID, s.timeout-time.Since(c.startedAt))
	c.status, c.sink, c.deadlineSetAt, c.attached = nil, out, time.Time{}, true
	c.releaseBuffers()
	go func() { // ends with the stream; Drain waits for it
		defer s.detached.Done()
		err := s.serveDetached(ctx, e, out, c, a.Frames)
		s.unregister(e)
		s.ended(ctx, a, err)
	}()
	return true
}

// addDetached counts a detached stream, for which Drain waits, unless Drain has been called.
func (s *Streamer) addDetached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.detached.Add(1)
	return true
}

// serveDetached serves a detached stream to its end.
func (s *Streamer) serveDetached(ctx context.Context, e *entry, out *connSink, c *connection, frames Frames) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(ErrTruncated, fmt.Errorf("%w: %v\n%s", errPanicked, p, debug.Stack()))
		}
		if err != nil {
			out.close()
		}
	}()
	out.watch(func() { e.end(errConnectionLost) })
	if err := s.pump(ctx, c, frames); err != nil {
		return s.endEarly(ctx, c, err)
	}
	if err := out.finish(); err != nil {
		return errors.Join(ErrDisconnected, err)
	}
	return nil
}
