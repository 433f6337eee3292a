// Package stream writes a log to a client: from the bus or, for events that have expired there, from history, at the
// client's pace, until the terminal event or until one side disconnects.
//
// A response that ends without a terminal event must not look complete: the caller aborts its connection (see
// [ErrTruncated]).
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

// Frames returns frames in order and without gaps. It is for one goroutine.
type Frames interface {
	// Next returns the next frame, bus.ErrIdle if none arrives within wait, io.EOF after the last frame, and any other
	// error if the frames cannot be continued.
	Next(ctx context.Context, wait time.Duration) (event.Frame, error)
	// Ready reports whether Next would return without waiting.
	Ready() bool
	// Close frees the resources of the frames. It may be called twice.
	Close()
}

// Logs opens logs. It is safe for concurrent use.
type Logs struct {
	bus     *bus.Bus
	history historyapi.Client
	meter   *metrics.Instruments
}

// NewLogs returns logs on the bus, with history as the fallback.
func NewLogs(b *bus.Bus, history historyapi.Client, meter *metrics.Instruments) *Logs {
	return &Logs{b, history, meter}
}

// Open returns the frames of a request's log from event from on, up to its terminal event.
func (l *Logs) Open(ctx context.Context, r authz.Request, from uint64) (Frames, error) {
	f := &logFrames{logs: l, log: r.Log(), known: r.Known, n: from, lease: l.bus.Replay().Lease(r.Tenant)}
	if r.Archived {
		l.meter.Replayed(ctx)
		f.fromHistory, f.archived = true, true
		return f, nil
	}
	return f, f.follow(ctx)
}

// logFrames reads a log from the bus, and events that have expired there from history.
type logFrames struct {
	logs        *Logs
	log         bus.LogID
	known       bus.ResumeHint
	follower    *bus.Follower // nil while history is read
	fromHistory bool          // the next events are in history
	expired     bool          // the bus has reported that the next events have expired
	archived    bool          // the whole log has expired from the bus
	buffered    []event.Frame // read from history, not returned yet
	lease       *budget.Lease // for buffered and the last returned frame
	pageSize    int           // bytes of the last page that was requested from history
	n           uint64        // of the next event
	ended       bool
}

func (f *logFrames) follow(ctx context.Context) error {
	follower, err := f.logs.bus.Resume(ctx, f.log, f.n, f.known)
	if err != nil {
		return authz.Unavailable(err)
	}
	f.follower, f.fromHistory = follower, false
	return nil
}

func (f *logFrames) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	for {
		switch {
		case len(f.buffered) > 0:
			frame := f.buffered[0]
			f.buffered[0] = event.Frame{}
			f.buffered = f.buffered[1:]
			f.advance(frame)
			return frame, nil
		case f.ended:
			return event.Frame{}, io.EOF
		case f.fromHistory:
			if err := f.page(ctx, wait); err != nil {
				return event.Frame{}, err
			}
		default:
			frame, err := f.follower.Next(ctx, wait)
			if errors.Is(err, bus.ErrExpired) {
				f.logs.meter.Replayed(ctx)
				f.Close()
				f.fromHistory, f.expired = true, true
				continue
			}
			if err == nil {
				f.advance(frame)
			}
			return frame, err
		}
	}
}

func (f *logFrames) advance(frame event.Frame) {
	f.n, f.ended = frame.Next(), frame.Terminal()
}

// The sizes of the pages that are requested from history, in bytes: as in pkg/bus, a reader starts with a small one.
// beyondPage is how much longer a page may be than requested.
const (
	firstPage  = 64 << 10
	largePage  = 1 << 20
	beyondPage = 1 << 20
)

// page reads the next page from history, when the memory budget allows it, or returns bus.ErrThrottled after wait. If
// history ends without a terminal event, the bus is read again.
func (f *logFrames) page(ctx context.Context, wait time.Duration) error {
	if err := f.reserve(ctx, wait); err != nil {
		return err
	}
	asked := framesQuery(f.log, f.n, 0)
	asked.Bytes = f.pageSize
	page, err := f.logs.history.Frames(ctx, asked)
	if err != nil {
		f.lease.Release()
		return err
	}
	kept := int64(0)
	for _, frame := range page.Frames {
		f.buffered = append(f.buffered, frame.Event())
		kept += int64(len(frame.Lines))
	}
	f.lease.Set(kept)
	if len(page.Frames) > 0 {
		f.expired = false
		return nil
	}
	if f.archived {
		return apierr.New(apierr.Unavailable, "the end of the request's log was lost; it may begin again: try again later")
	}
	if f.expired {
		return fmt.Errorf("request %s: neither the bus nor history has event %d", f.log.RequestID, f.n)
	}
	return f.follow(ctx)
}

// reserve waits for memory for a page: a large one if available at once, otherwise a small one.
func (f *logFrames) reserve(ctx context.Context, wait time.Duration) error {
	f.pageSize = min(max(2*f.pageSize, firstPage), largePage)
	if f.lease.Try(int64(f.pageSize) + beyondPage) {
		return nil
	}
	f.pageSize = firstPage
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := f.lease.Wait(bounded, firstPage+beyondPage)
	if err != nil && ctx.Err() == nil {
		return bus.ErrThrottled
	}
	return err
}

func (f *logFrames) Ready() bool {
	return len(f.buffered) > 0 || f.ended || f.follower != nil && f.follower.Ready()
}

func (f *logFrames) Close() {
	f.buffered = nil
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

// Position is the position of a client in a log.
type Position struct {
	From   uint64      // n of the first event that the client has not received
	Reset  bool        // the cursor belongs to another log: the client must start again
	Ended  bool        // the client has received the terminal event
	Newest event.Frame // the last frame of the log on the bus, if there is one
}

// Resume returns the position of a client whose last event had this cursor. An invalid cursor is an API error with
// InvalidMessageFormat.
func (l *Logs) Resume(ctx context.Context, r authz.Request, cursor string) (Position, error) {
	incarnation, n, err := event.ParseCursor(cursor)
	if err != nil {
		return Position{}, apierr.Wrap(err, apierr.InvalidMessageFormat,
			"the id to resume after must be one that a stream gave, like k3f9-17; leave it out to start from the beginning")
	}
	if r.Archived {
		return l.resumeArchived(ctx, r, incarnation, n)
	}
	last, err := l.bus.Last(ctx, r.Log())
	if errors.Is(err, bus.ErrNotFound) {
		return Position{Reset: true}, nil // the log is empty, so the cursor is not of this log
	}
	if err != nil {
		return Position{}, authz.Unavailable(err)
	}
	last.Lines = nil // only its position is needed: a waiting reader must not hold a frame outside any budget
	if last.Incarnation != incarnation {
		return Position{Reset: true, Newest: last}, nil
	}
	at := position(last, n)
	at.Newest = last
	return at, nil
}

// resumeArchived is Resume for a log in history, which has ended.
func (l *Logs) resumeArchived(ctx context.Context, r authz.Request, incarnation string, n uint64) (Position, error) {
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

// position returns the position after event n, given the log's last frame, or the frame that holds n. An event after
// that frame was never written: the cursor belongs to another request, or to events that the bus has lost.
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
