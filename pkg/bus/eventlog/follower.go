package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
)

// Follower reads a log from some event on, first what is stored and then what comes, in order and without gaps.
//
// Followers of one log in one process share a subscription and a ring of recent frames. A follower that is slow falls
// behind the ring and reads storage at its own pace; it never holds up the others. Frames are shared: do not change
// them. A Follower is for one goroutine.
type Follower struct {
	bus    *Logs
	feed   *feed // nil where the log has ended and nothing will come
	log    storedLog
	ahead  []event.Frame // read from storage, not given yet: one at most
	stale  bool          // storage holds more than was read
	doubt  bool          // storage may hold more, though nothing came
	behind bool          // storage does hold more, though perhaps not every replica
	timer  *time.Timer   // of the wait; nil before the first
	looks  broker.Looks
	ended  bool
	closed bool
}

// Follow starts to follow a log at event n = from. The log need not exist yet. Close the follower.
func (b *Logs) Follow(ctx context.Context, log broker.LogID, from uint64) (*Follower, error) {
	return b.Resume(ctx, log, from, ResumeHint{})
}

// Resume is Follow for somebody who knows a part of the log.
func (b *Logs) Resume(ctx context.Context, log broker.LogID, from uint64, known ResumeHint) (*Follower, error) {
	subject, err := b.conn.Subject(broker.KindEvent, log.Tenant, log.RequestID)
	if err != nil {
		return nil, err
	}
	f := &Follower{bus: b, looks: broker.NewLooks(b.conn.Link), log: storedLog{
		bus: b, subject: subject, n: from, known: known, lease: b.replay.Lease(log.Tenant), turn: b.turns.Turn(log.Tenant),
	}}
	f.stale = known.Newest.Next() > from
	f.doubt = !f.stale
	if known.Newest.Terminal() {
		return f, nil
	}
	if f.feed, err = b.feeds.join(b.conn, b.conn.Live(subject)); err != nil {
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	// The subscription must stand at the server before storage is read, or what comes in between is missed.
	if err := b.conn.Flush(ctx); err != nil {
		f.Close()
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	return f, nil
}

// Next returns the next frame, cut to start at the next event. It returns io.EOF after the terminal event, ErrIdle when
// nothing came for wait, ErrForgotten when the stream no longer holds what is next, and ctx's error when that is done.
func (f *Follower) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	deadline := time.Now().Add(wait)
	f.log.settle() // the frame that was given last is of no concern any more
	for {
		if f.ended {
			return event.Frame{}, io.EOF
		}
		frame, ok, changed := f.take()
		if ok {
			return frame, nil
		}
		if f.doubt {
			f.check(ctx)
		}
		if f.stale {
			if err := f.fill(ctx, deadline); err != nil {
				return event.Frame{}, err
			}
			continue
		}
		if err := f.wait(ctx, changed, deadline); err != nil {
			return event.Frame{}, err
		}
	}
}

// Ready reports whether Next would return without waiting.
func (f *Follower) Ready() bool {
	if f.ended || len(f.ahead) > 0 || len(f.log.page) > 0 {
		return true
	}
	if f.feed == nil {
		return false
	}
	_, ok, _, behind := f.feed.at(f.log.n)
	return ok || behind
}

// Close gives up the follower's share of the subscription. It may be called twice.
func (f *Follower) Close() {
	if f.closed {
		return
	}
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	f.log.release()
	if f.feed != nil {
		f.bus.feeds.leave(f.feed)
	}
}

// take returns the next frame if it is at hand.
func (f *Follower) take() (event.Frame, bool, <-chan struct{}) {
	if len(f.ahead) > 0 {
		frame := f.ahead[0]
		f.ahead[0] = event.Frame{} // the lease counts its lines no more once the next frame is asked for
		f.ahead = f.ahead[:0]
		f.gave(frame)
		return frame, true, nil
	}
	if f.feed == nil {
		f.stale, f.behind = true, true
		return event.Frame{}, false, nil
	}
	frame, ok, changed, behind := f.feed.at(f.log.n)
	if behind {
		f.bus.conn.Weak.Reached("gap")
	}
	if behind && f.bus.conn.Weak.NoGapFilling() {
		frame, ok = f.feed.oldest()
		behind = false
	}
	if ok {
		f.log.skip(frame)
		f.gave(frame)
		return frame, true, nil
	}
	f.behind = behind
	f.stale = f.stale || behind
	return event.Frame{}, false, changed
}

func (f *Follower) gave(frame event.Frame) {
	if f.feed != nil {
		f.feed.took(frame.Next())
	}
	f.looks.Soon()
	f.ended = frame.Terminal()
}

// check asks for the newest frame, which costs less than to read a page. Without an answer the next look asks again, soon.
func (f *Follower) check(ctx context.Context) {
	f.doubt = false
	newest, err := f.log.place(f.bus.conn.LastDirect(ctx, f.bus.conn.EventsStream(), f.log.subject))
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		f.looks.Soon()
		return
	}
	if err == nil && newest.Next() > f.log.n {
		f.stale, f.log.known.Newest = true, newest
		if f.looks.Pause > broker.FirstLook {
			f.bus.conn.Weak.Reached("tail")
		}
	}
}

// fill reads a frame from storage. A broker that does not answer is asked again until the deadline, then it is ErrIdle:
// a reader whose broker restarts waits, as it does for a slow model.
func (f *Follower) fill(ctx context.Context, deadline time.Time) error {
	for {
		frame, found, err := f.log.next(ctx, deadline)
		if errors.Is(err, broker.ErrForgotten) || errors.Is(err, broker.ErrNoRoom) {
			return err
		}
		if found {
			f.ahead = append(f.ahead[:0], frame)
		}
		if err == nil {
			f.stale = f.log.pending()
		}
		if err == nil && !found && f.feed == nil && (!f.bus.conn.Replicated() || time.Now().After(deadline)) {
			return fmt.Errorf("%s has no event %d any more: %w", f.log.subject, f.log.n, broker.ErrForgotten)
		}
		if err == nil && !found && f.behind {
			return broker.Pause(ctx, broker.ReplicaPause)
		}
		if err == nil {
			return nil
		}
		if err := broker.Pause(ctx, broker.Refill); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return broker.ErrIdle
		}
	}
}

// wait returns when the ring has grown or it is time to look into storage; ErrIdle at the deadline.
func (f *Follower) wait(ctx context.Context, changed <-chan struct{}, deadline time.Time) error {
	now := time.Now()
	if !now.Before(deadline) {
		return broker.ErrIdle
	}
	if f.looks.Due() {
		f.doubt = true
		return nil
	}
	pause := min(deadline.Sub(now), f.looks.At.Sub(now))
	if f.timer == nil {
		f.timer = time.NewTimer(pause)
	} else {
		f.timer.Reset(pause)
	}
	f.feed.wait(ctx, changed, f.looks.Back, f.timer.C)
	return ctx.Err()
}
