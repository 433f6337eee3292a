package protocol_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// archive is a log of which a page takes a second to read. What is behind the last page takes as long as it takes.
type archive struct {
	pages           int
	reading, atOnce *atomic.Int32
	at              event.Frame
}

func (a *archive) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	if a.pages == 0 {
		<-time.After(wait)
		return event.Frame{}, bus.ErrIdle
	}
	a.pages--
	if now := a.reading.Add(1); now > a.atOnce.Load() {
		a.atOnce.Store(now)
	}
	<-time.After(time.Second)
	a.reading.Add(-1)
	return a.at, ctx.Err()
}

func (a *archive) Ready() bool { return false }
func (a *archive) Close()      {}

func TestReplaysTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const clients, places, pages = 10, 2, 3
		var reading, atOnce atomic.Int32
		paced := protocol.Pace(places)
		ended := make(chan int, clients)
		begun := time.Now()
		for range clients {
			frames := paced("a", &archive{pages: pages, reading: &reading, atOnce: &atOnce})
			go func() {
				n := 0
				for n < pages {
					if _, err := frames.Next(t.Context(), time.Minute); err == nil {
						n++
					}
				}
				ended <- n
			}()
		}
		for range clients {
			<-ended
		}
		if atOnce.Load() != places {
			t.Errorf("%d read at once, want %d", atOnce.Load(), places)
		}
		if took := time.Since(begun); took != clients*pages/places*time.Second {
			t.Errorf("all took %v, want no pause between turns", took)
		}
	})
}

func TestAStreamThatHasCaughtUpTakesNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reading, atOnce atomic.Int32
		paced := protocol.Pace(1)
		live := make([]interface {
			Next(ctx context.Context, wait time.Duration) (event.Frame, error)
		}, 5)
		for i := range live {
			live[i] = paced("a", &archive{reading: &reading, atOnce: &atOnce})
			if _, err := live[i].Next(t.Context(), time.Minute); !errors.Is(err, bus.ErrIdle) {
				t.Fatalf("got %v", err)
			}
		}
		begun := time.Now()
		ended := make(chan struct{})
		for _, frames := range live { // each waits for what may come, and none for another
			go func() {
				_, _ = frames.Next(t.Context(), time.Minute)
				ended <- struct{}{}
			}()
		}
		for range live {
			<-ended
		}
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("took %v, want all to wait side by side", took)
		}
	})
}

func TestAFewReplaysOfATenantDoNotWaitForTheManyOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many, places = 100, 2
		var reading, atOnce atomic.Int32
		paced := protocol.Pace(places)
		ended := make(chan error, many)
		for range many {
			frames := paced("many", &archive{pages: 1, reading: &reading, atOnce: &atOnce})
			go func() {
				_, err := frames.Next(t.Context(), time.Hour)
				ended <- err
			}()
		}
		synctest.Wait()
		begun := time.Now()
		if _, err := paced("few", &archive{pages: 1, reading: &reading, atOnce: &atOnce}).Next(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("took %v, want the rest of a turn of another tenant and its own", took)
		}
		for range many {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAWaitForATurnIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reading, atOnce atomic.Int32
		paced := protocol.Pace(1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			frames := paced("a", &archive{pages: 1, reading: &reading, atOnce: &atOnce})
			_, _ = frames.Next(t.Context(), time.Minute)
		}()
		synctest.Wait()
		frames := paced("a", &archive{pages: 1, reading: &reading, atOnce: &atOnce})
		if _, err := frames.Next(t.Context(), 100*time.Millisecond); !errors.Is(err, bus.ErrIdle) {
			t.Errorf("got %v, want ErrIdle, so that a heartbeat can be written", err)
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		if _, err := frames.Next(left, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("of a client that has left: got %v", err)
		}
		<-ended
	})
}

func TestATenantOpensStreamsAtAPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		await := protocol.Openings()
		begun := time.Now()
		open := func(tenant string, streams int) time.Duration {
			for range streams {
				if err := await(t.Context(), tenant); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(begun)
		}
		if took := open("a", protocol.OpeningsAtOnce()); took != 0 {
			t.Errorf("the burst took %v, want no wait", took)
		}
		if took := open("a", 2*protocol.OpeningsPerSecond()); took < 1900*time.Millisecond || took > 2100*time.Millisecond {
			t.Errorf("the streams of two seconds took %v", took)
		}
		before := time.Since(begun)
		if took := open("b", protocol.OpeningsAtOnce()) - before; took != 0 {
			t.Errorf("another tenant waited %v, want no wait", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := await(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("without a client: got %v, want %v", err, context.Canceled)
		}
	})
}
