package stream

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Track serves, in a goroutine, what is not one answer and lasts like one, under the rules of Serve: its context ends
// with ErrTimeout, ErrDraining, ErrRevoked or ErrExpired as the cause, and not with ctx, of which it has the trace alone. Drain waits
// for it. False means that the gateway is draining, and that nothing is served.
//
//nolint:contextcheck // ctx ends with its handler, and would keep all of the request
func (s *Streamer) Track(ctx context.Context, keyID string, serve func(context.Context)) bool {
	if !s.addDetached() {
		return false
	}
	s.meter.Opened(ctx)
	own := trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(ctx))
	own, e := s.register(own, keyID, s.timeout)
	go func() { // ends with serve; Drain waits for it
		defer s.detached.Done()
		defer s.meter.Closed(own)
		defer s.unregister(e)
		serve(own)
	}()
	return true
}

// Heartbeat is how long a stream may be quiet.
func (s *Streamer) Heartbeat() time.Duration { return s.heartbeat }
