package stream_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"go.opentelemetry.io/otel/metric/noop"
)

func TestTrackEndsWithTheReason(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what string
		do   func(*stream.Streamer)
		want error
	}{
		{"the gateway drains", (*stream.Streamer).Drain, stream.ErrDraining},
		{"the key is revoked", func(s *stream.Streamer) { s.Revoke("k") }, stream.ErrRevoked},
		{"time is up", func(*stream.Streamer) { time.Sleep(2 * time.Hour) }, stream.ErrTimeout}, // of the bubble
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				meter, err := metrics.New(noop.NewMeterProvider())
				if err != nil {
					t.Fatal(err)
				}
				s := stream.NewStreamer(15*time.Second, time.Hour, meter)
				ended := make(chan error, 1)
				leave, cancel := context.WithCancel(t.Context())
				if !s.Track(leave, "k", func(ctx context.Context) {
					<-ctx.Done()
					ended <- context.Cause(ctx)
				}) {
					t.Fatal("it is not attended")
				}
				cancel() // the end of a handler is not the end of what it began
				synctest.Wait()
				if len(ended) > 0 {
					t.Fatalf("it ended with %v", <-ended)
				}
				test.do(s)
				if err := <-ended; !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				s.Drain()
				if s.Track(t.Context(), "k", func(context.Context) { t.Error("it is served") }) {
					t.Error("a gateway that drains attends")
				}
			})
		})
	}
}

// There are many who are attended for hours, and what a server keeps for a request is large.
func TestTrackReleasesRequest(t *testing.T) {
	t.Parallel()
	meter, err := metrics.New(noop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	s := stream.NewStreamer(15*time.Second, time.Hour, meter)
	type key struct{}
	gone := make(chan struct{})
	func() {
		request := new([1 << 10]byte)
		runtime.AddCleanup(request, func(gone chan struct{}) { close(gone) }, gone)
		if !s.Track(context.WithValue(t.Context(), key{}, request), "k", func(ctx context.Context) { <-ctx.Done() }) {
			t.Fatal("it is not attended")
		}
	}()
	runtime.GC()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the request is still in memory")
	}
	s.Drain()
}

// TestAWrongClockEndsNoStreamOfAGoodKey has a gateway whose own clock is ten minutes ahead of the one that decides about
// keys, or behind it.
func TestAWrongClockEndsNoStreamOfAGoodKey(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": -10 * time.Minute, "behind": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				meter, err := metrics.New(noop.NewMeterProvider())
				if err != nil {
					t.Fatal(err)
				}
				now := func() time.Time { return time.Now().Add(ahead) }
				begun, expires := time.Now(), now().Add(5*time.Minute)
				s := stream.NewStreamer(15*time.Second, time.Hour, meter)
				s.ExpireWith(func(string) time.Time { return expires }, now)
				ended := make(chan error, 1)
				s.Track(t.Context(), "k", func(ctx context.Context) {
					<-ctx.Done()
					ended <- context.Cause(ctx)
				})
				if err := <-ended; !errors.Is(err, stream.ErrExpired) || time.Since(begun) != 5*time.Minute {
					t.Errorf("got %v after %s, want %v after 5m", err, time.Since(begun), stream.ErrExpired)
				}
				s.Drain()
			})
		})
	}
}
