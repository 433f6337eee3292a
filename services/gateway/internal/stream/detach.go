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

// A stream that waits is parked: it leaves its handler and goes on with the bare connection. What a server keeps for a
// request (buffers, headers, the stacks of all handlers) is three times what a stream needs that is waiting for a model,
// a person or an hour-long approval, and there are many of those.

// detachAfter is how long a stream must be quiet: those that are read in one go are not worth it.
const detachAfter = 20 * time.Millisecond

// errIdle says that a stream may be parked now.
var errIdle = errors.New("the stream is quiet")

// detach lets a stream go on by itself and reports whether it does; else the caller goes on.
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
	ctx, e := s.register(ctx, a.KeyID, s.timeout-time.Since(c.began))
	c.status, c.sink, c.renewed, c.attached = nil, out, time.Time{}, true
	c.releaseBuffers()
	go func() { // ends with the stream; Drain waits for it
		defer s.detached.Done()
		err := s.serveDetached(ctx, e, out, c, a.Frames)
		s.unregister(e)
		s.ended(ctx, a, err)
	}()
	return true
}

// addDetached adds one to what Drain waits for, unless Drain waits already.
func (s *Streamer) addDetached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.detached.Add(1)
	return true
}

// serveDetached serves a parked stream to its end.
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
		return s.cut(ctx, c, err)
	}
	if err := out.finish(); err != nil {
		return errors.Join(ErrDisconnected, err)
	}
	return nil
}
