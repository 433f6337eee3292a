package stream

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Track runs serve in a goroutine with the lifetime rules of Serve: its context ends with ErrTimeout, ErrDraining,
// ErrRevoked or ErrExpired as the cause. It does not end with ctx, of which it has only the trace. Drain waits for
// serve. Track returns false, without running serve, if the gateway drains.
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

// Heartbeat returns the time after which an idle stream sends a heartbeat.
func (s *Streamer) Heartbeat() time.Duration { return s.heartbeat }
