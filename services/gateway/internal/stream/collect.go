package stream

import (
	"context"
	"errors"
	"io"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
)

// Collect passes the frames of a response to each until they end, under the rules of Serve, without writing a stream.
// The caller may send the error to the client as a status and a body, unless it is [ErrTruncated].
func (s *Streamer) Collect(ctx context.Context, a Response, each func(event.Frame) error) (err error) {
	s.meter.Opened(ctx)
	ctx, e := s.register(ctx, a.KeyID, s.timeout)
	defer func() {
		s.unregister(e)
		s.ended(ctx, a, err)
	}()
	wait := s.heartbeat
	if a.StartTimeout > 0 {
		wait = a.StartTimeout
	}
	for started := false; ; {
		f, err := a.Frames.Next(ctx, wait)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, bus.ErrIdle) && !started && a.StartTimeout > 0:
			return notStarted(a.StartTimeout)
		case errors.Is(err, bus.ErrIdle):
			continue
		case err == nil:
			started, wait = true, s.heartbeat
			err = each(f)
		}
		if err != nil {
			return s.endEarly(ctx, &connection{}, err)
		}
	}
}
