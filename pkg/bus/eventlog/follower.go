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

// Follower reads a log from an event on, first what is stored and then what is appended, in order and without gaps.
//
// Followers of one log in one process share a subscription and a ring of recent frames. A follower that is slower than the
// ring reads storage at its own pace and does not delay the others. Frames are shared: do not change them. A Follower is for
// one goroutine.
type Follower struct {
	bus    *Logs
	feed   *feed // nil if the log has ended
	log    storedLog
	ahead  []event.Frame // read from storage, not returned yet: one at most
	stale  bool          // storage holds more than was read
	doubt  bool          // storage may hold more, although no message came
	behind bool          // storage holds more, but a replica may lag
	timer  *time.Timer   // of the wait; nil before the first
	checks broker.Checks
	ended  bool
	closed bool
}

// Follow starts to follow a log at event n = from. The log need not exist yet. Close the follower.
func (b *Logs) Follow(ctx context.Context, log broker.LogID, from uint64) (*Follower, error) {
	return b.Resume(ctx, log, from, ResumeHint{})
}

// Resume is Follow with a hint about the log, which saves reads of storage.
func (b *Logs) Resume(ctx context.Context, log broker.LogID, from uint64, known ResumeHint) (*Follower, error) {
	subject, err := b.conn.Subject(broker.KindEvent, log.Tenant, log.RequestID)
	if err != nil {
		return nil, err
	}
	f := &Follower{bus: b, checks: broker.NewChecks(b.conn.Link), log: storedLog{
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
	// The server must have the subscription before storage is read. Otherwise frames stored in between would be missed.
	if err := b.conn.Flush(ctx); err != nil {
		f.Close()
		return nil, fmt.Errorf("follow %s: %w", subject, err)
	}
	return f, nil
}

// Next returns the next frame, cut to start at the next event. The error is io.EOF after the terminal event, ErrIdle if no
// frame came within wait, ErrExpired if the next event has expired from the stream, and the error of ctx when ctx is done.
func (f *Follower) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	deadline := time.Now().Add(wait)
	f.log.settle() // the lease no longer counts the frame that was returned last
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

// Close ends the use of the subscription. It may be called twice.
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

// take returns the next frame if it can without waiting.
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
	if behind && f.bus.conn.Observer.Gap() {
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
	f.checks.Soon()
	f.ended = frame.Terminal()
}

// check reads the position of the newest frame, which costs less than to read a page. Without a response the next check
// follows soon.
func (f *Follower) check(ctx context.Context) {
	f.doubt = false
	newest, err := f.log.position(f.bus.conn.LastDirect(ctx, f.bus.conn.EventsStream(), f.log.subject))
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		f.checks.Soon()
		return
	}
	if err == nil && newest.Next() > f.log.n {
		f.stale, f.log.known.Newest = true, newest
		if f.checks.Pause > broker.FirstCheck {
			f.bus.conn.Observer.Reached("tail")
		}
	}
}

// fill reads a frame from storage. It retries until the deadline if the broker does not respond, and then returns ErrIdle: a
// reader waits for a broker that restarts as it waits for a slow model.
func (f *Follower) fill(ctx context.Context, deadline time.Time) error {
	for {
		frame, found, err := f.log.next(ctx, deadline)
		if errors.Is(err, broker.ErrExpired) || errors.Is(err, broker.ErrThrottled) {
			return err
		}
		if found {
			f.ahead = append(f.ahead[:0], frame)
		}
		if err == nil {
			f.stale = f.log.pending()
		}
		if err == nil && !found && f.feed == nil && (!f.bus.conn.Replicated() || time.Now().After(deadline)) {
			return fmt.Errorf("%s has no event %d any more: %w", f.log.subject, f.log.n, broker.ErrExpired)
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

// wait returns when the ring has grown or storage must be checked; ErrIdle at the deadline.
func (f *Follower) wait(ctx context.Context, changed <-chan struct{}, deadline time.Time) error {
	now := time.Now()
	if !now.Before(deadline) {
		return broker.ErrIdle
	}
	if f.checks.Due() {
		f.doubt = true
		return nil
	}
	pause := min(deadline.Sub(now), f.checks.At.Sub(now))
	if f.timer == nil {
		f.timer = time.NewTimer(pause)
	} else {
		f.timer.Reset(pause)
	}
	f.feed.wait(ctx, changed, f.checks.Back, f.timer.C)
	return ctx.Err()
}
