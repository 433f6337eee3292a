package stream

import (
	"context"
	"errors"
	"io"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
)

// Follow gives the answer's frames to each until they end: a stream that nothing is written to, under the rules of Serve.
// Its error is for the client, as a status and a body, unless it is [ErrCut].
func (s *Streamer) Follow(ctx context.Context, a Answer, each func(event.Frame) error) (err error) {
	s.meter.Opened(ctx)
	ctx, e := s.enter(ctx, a.KeyID, s.timeout)
	defer func() {
		s.forget(e)
		s.ended(ctx, a, err)
	}()
	for {
		f, err := a.Frames.Next(ctx, s.heartbeat)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, bus.ErrIdle):
			continue
		case err == nil:
			err = each(f)
		}
		if err != nil {
			return s.cut(ctx, &connection{}, err)
		}
	}
}
