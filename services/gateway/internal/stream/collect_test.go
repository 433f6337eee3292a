package stream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"go.opentelemetry.io/otel/metric/noop"
)

func TestFollowOfMissingRequestFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what string
		do   func(s *stream.Streamer, leave context.CancelFunc, frames channel)
		code apierr.Code
		left bool
	}{
		{"the gateway drains", func(s *stream.Streamer, _ context.CancelFunc, _ channel) { s.Drain() }, apierr.Unavailable, false},
		{"the key is revoked", func(s *stream.Streamer, _ context.CancelFunc, _ channel) { s.Revoke("k") }, apierr.AuthFailed, false},
		{"time is up", func(*stream.Streamer, context.CancelFunc, channel) {}, apierr.StreamTimeout, false},
		{"the client leaves", func(_ *stream.Streamer, leave context.CancelFunc, _ channel) { leave() }, "", true},
		{"the frames end", func(_ *stream.Streamer, _ context.CancelFunc, frames channel) { close(frames) }, "", false},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				meter, err := metrics.New(noop.NewMeterProvider())
				if err != nil {
					t.Fatal(err)
				}
				s := stream.NewStreamer(15*time.Second, time.Hour, meter)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				frames, seen, ended := make(channel, 1), 0, make(chan error, 1)
				answer := stream.Response{Frames: frames, KeyID: "k"}
				go func() {
					ended <- s.Collect(ctx, answer, func(event.Frame) error { seen++; return nil })
				}()
				frames <- event.Frame{}
				synctest.Wait()
				test.do(s, leave, frames)
				err = <-ended
				told := ""
				if err != nil && !errors.Is(err, stream.ErrTruncated) {
					told = string(apierr.CodeOf(err))
				}
				if told != string(test.code) || errors.Is(err, stream.ErrDisconnected) != test.left || seen != 1 {
					t.Errorf("after %d frames: got %v, want %q", seen, err, test.code)
				}
			})
		})
	}
}
