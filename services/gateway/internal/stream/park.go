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

// parkAfter is how long a stream must be quiet: those that are read in one go are not worth it.
const parkAfter = 20 * time.Millisecond

// errQuiet says that a stream may be parked now.
var errQuiet = errors.New("the stream is quiet")

// park lets a stream go on by itself and reports whether it does; else the caller goes on.
//
//nolint:contextcheck // the request's context ends with its handler, and would keep all of the request
func (s *Streamer) park(w http.ResponseWriter, r *http.Request, c *connection, a Answer) bool {
	if !s.mayPark() {
		return false
	}
	out := takeOver(w, r)
	if out == nil {
		s.parked.Done()
		return false
	}
	span := trace.SpanContextFromContext(r.Context())
	ctx := trace.ContextWithSpanContext(context.Background(), span)
	ctx, e := s.enter(ctx, a.KeyID, s.timeout-time.Since(c.began))
	c.status, c.out, c.renewed, c.stays = nil, out, time.Time{}, true
	c.rest()
	go func() { // ends with the stream; Drain waits for it
		defer s.parked.Done()
		err := s.goOn(ctx, e, out, c, a.Frames)
		s.forget(e)
		s.ended(ctx, a, err)
	}()
	return true
}

// mayPark adds one to what Drain waits for, unless Drain waits already.
func (s *Streamer) mayPark() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.parked.Add(1)
	return true
}

// goOn serves a parked stream to its end.
func (s *Streamer) goOn(ctx context.Context, e *entry, out *socket, c *connection, frames Frames) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(ErrCut, fmt.Errorf("%w: %v\n%s", errPanicked, p, debug.Stack()))
		}
		if err != nil {
			out.close()
		}
	}()
	out.watch(func() { e.end(errGone) })
	if err := s.pump(ctx, c, frames); err != nil {
		return s.cut(ctx, c, err)
	}
	if err := out.finish(); err != nil {
		return errors.Join(ErrLeft, err)
	}
	return nil
}
