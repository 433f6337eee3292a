// Package stream carries a log to a client: from the bus while the bus has it, from history when not, at the client's
// own pace, until the terminal event or until one side leaves.
//
// A response that ends without a terminal event must not look whole: the caller aborts its connection (see [ErrTruncated]).
package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
)

// Frames gives frames in order and without gaps. It is for one goroutine.
type Frames interface {
	// Next returns the next frame, bus.ErrIdle when none came for wait, io.EOF when there will be none, and any other
	// error when it cannot go on.
	Next(ctx context.Context, wait time.Duration) (event.Frame, error)
	// Ready reports whether Next would return without waiting.
	Ready() bool
	// Close frees what the frames hold. It may be called twice.
	Close()
}

// Logs opens logs. It is safe for concurrent use.
type Logs struct {
	bus     *bus.Bus
	history historyapi.Client
	meter   *metrics.Instruments
}

// NewLogs returns logs on the bus, with history behind it.
func NewLogs(b *bus.Bus, history historyapi.Client, meter *metrics.Instruments) *Logs {
	return &Logs{b, history, meter}
}

// Open returns the frames of a request's log from event n = from on, up to its terminal event.
func (l *Logs) Open(ctx context.Context, r authz.Request, from uint64) (Frames, error) {
	f := &logFrames{logs: l, log: r.Log(), known: r.Known, n: from, lease: l.bus.Replay().Lease(r.Tenant)}
	if r.Past {
		l.meter.Replayed(ctx)
		f.past, f.gone = true, true
		return f, nil
	}
	return f, f.follow(ctx)
}

// logFrames reads a log from the bus, and what the bus has forgotten from history.
type logFrames struct {
	logs     *Logs
	log      bus.LogID
	known    bus.ResumeHint
	follower *bus.Follower // nil while history is read
	past     bool          // the next events are in history
	lost     bool          // the bus has said that it does not have them
	gone     bool          // the bus has nothing of the log
	ahead    []event.Frame // read from history, not given yet
	lease    *budget.Lease // for ahead and the frame that was given last
	size     int           // bytes of the page of history that was asked for last
	n        uint64        // of the next event
	ended    bool
}

func (f *logFrames) follow(ctx context.Context) error {
	follower, err := f.logs.bus.Resume(ctx, f.log, f.n, f.known)
	if err != nil {
		return authz.Unavailable(err)
	}
	f.follower, f.past = follower, false
	return nil
}

func (f *logFrames) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	for {
		switch {
		case len(f.ahead) > 0:
			frame := f.ahead[0]
			f.ahead[0] = event.Frame{}
			f.ahead = f.ahead[1:]
			f.gave(frame)
			return frame, nil
		case f.ended:
			return event.Frame{}, io.EOF
		case f.past:
			if err := f.page(ctx, wait); err != nil {
				return event.Frame{}, err
			}
		default:
			frame, err := f.follower.Next(ctx, wait)
			if errors.Is(err, bus.ErrForgotten) {
				f.logs.meter.Replayed(ctx)
				f.Close()
				f.past, f.lost = true, true
				continue
			}
			if err == nil {
				f.gave(frame)
			}
			return frame, err
		}
	}
}

func (f *logFrames) gave(frame event.Frame) {
	f.n, f.ended = frame.Next(), frame.Terminal()
}

// The sizes of the pages that are asked of history, in bytes: as in pkg/bus, a reader starts with a small one. BeyondPage
// is how much longer a page may be than was asked for.
const (
	firstPage  = 64 << 10
	largePage  = 1 << 20
	beyondPage = 1 << 20
)

// page reads on in history, once there is room for a page: bus.ErrNoRoom when there is none for wait. Where history ends
// without a terminal event, the bus goes on.
func (f *logFrames) page(ctx context.Context, wait time.Duration) error {
	if err := f.reserve(ctx, wait); err != nil {
		return err
	}
	asked := framesQuery(f.log, f.n, 0)
	asked.Bytes = f.size
	page, err := f.logs.history.Frames(ctx, asked)
	if err != nil {
		f.lease.Release()
		return err
	}
	kept := int64(0)
	for _, frame := range page.Frames {
		f.ahead = append(f.ahead, frame.Event())
		kept += int64(len(frame.Lines))
	}
	f.lease.Set(kept)
	if len(page.Frames) > 0 {
		f.lost = false
		return nil
	}
	if f.gone {
		return apierr.New(apierr.Unavailable, "the end of the request's log was lost; it may begin again: try again later")
	}
	if f.lost {
		return fmt.Errorf("request %s: neither the bus nor history has event %d", f.log.RequestID, f.n)
	}
	return f.follow(ctx)
}

// reserve waits for room for a page, a small one where there is none for more.
func (f *logFrames) reserve(ctx context.Context, wait time.Duration) error {
	f.size = min(max(2*f.size, firstPage), largePage)
	if f.lease.Try(int64(f.size) + beyondPage) {
		return nil
	}
	f.size = firstPage
	patient, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := f.lease.Wait(patient, firstPage+beyondPage)
	if err != nil && ctx.Err() == nil {
		return bus.ErrNoRoom
	}
	return err
}

func (f *logFrames) Ready() bool {
	return len(f.ahead) > 0 || f.ended || f.follower != nil && f.follower.Ready()
}

func (f *logFrames) Close() {
	f.ahead = nil
	f.lease.Release()
	if f.follower != nil {
		f.follower.Close()
		f.follower = nil
	}
}

func framesQuery(log bus.LogID, from uint64, limit int) historyapi.FramesQuery {
	return historyapi.FramesQuery{
		RequestRef: historyapi.RequestRef{Tenant: log.Tenant, RequestID: log.RequestID}, From: from, Limit: limit,
	}
}

// Position is where a client stands in a log.
type Position struct {
	From   uint64      // n of the first event that it has not seen
	Reset  bool        // its cursor belongs to no log that we have: it must start anew
	Ended  bool        // it has seen the terminal event
	Newest event.Frame // of the log on the bus, if there is one
}

// Resume finds the position of a client whose last event had this cursor. A cursor that is none is a fault with
// InvalidMessageFormat.
func (l *Logs) Resume(ctx context.Context, r authz.Request, cursor string) (Position, error) {
	incarnation, n, err := event.ParseCursor(cursor)
	if err != nil {
		return Position{}, apierr.Wrap(err, apierr.InvalidMessageFormat,
			"the id to resume after must be one that a stream gave, like k3f9-17; leave it out to start from the beginning")
	}
	if r.Past {
		return l.resumePast(ctx, r, incarnation, n)
	}
	last, err := l.bus.Last(ctx, r.Log())
	if errors.Is(err, bus.ErrNotFound) {
		return Position{Reset: true}, nil // nothing has been written yet, so nothing can have been seen
	}
	if err != nil {
		return Position{}, authz.Unavailable(err)
	}
	last.Lines = nil // only its place counts: a reader that waits must not hold a frame that no budget knows
	if last.Incarnation != incarnation {
		return Position{Reset: true, Newest: last}, nil
	}
	at := position(last, n)
	at.Newest = last
	return at, nil
}

// resumePast does the same in history, where every log has ended.
func (l *Logs) resumePast(ctx context.Context, r authz.Request, incarnation string, n uint64) (Position, error) {
	first, err := l.history.Frames(ctx, framesQuery(r.Log(), 0, 1))
	if err != nil {
		return Position{}, err
	}
	if len(first.Frames) == 0 || first.Frames[0].Incarnation != incarnation {
		return Position{Reset: true}, nil
	}
	seen, err := l.history.Frames(ctx, framesQuery(r.Log(), n, 1))
	if err != nil {
		return Position{}, err
	}
	if len(seen.Frames) == 0 {
		return Position{Reset: true}, nil
	}
	return position(seen.Frames[0].Event(), n), nil
}

// position places event n in a log by the log's last frame so far, or by the frame that holds n. An event behind them was
// never written: its cursor is of another request, or of a part of the log that the bus has lost.
func position(last event.Frame, n uint64) Position {
	switch {
	case n >= last.Next():
		return Position{Reset: true}
	case n+1 == last.Next() && last.Terminal():
		return Position{Ended: true}
	default:
		return Position{From: n + 1}
	}
}
