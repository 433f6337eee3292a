package stream

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// Thread is the stream of a whole thread: the logs of its requests, one after the other, including later ones. Its
// cursors are "<incarnation>-<index>.<n>", event n of the thread's request with that index, or
// "<incarnation>-<index>.start", the position before that request's first event. It starts with the oldest request that
// the bus still has.
type Thread struct {
	logs    *Logs
	tenant  string
	start   string // the start of the frames, as a cursor
	records *bus.ThreadFollower
	current Frames // nil between requests
	index   int    // of the current request
	agentID string // of the current request
	skip    int    // index of the request that the client has received in part; -1 = none
	from    uint64 // n of the first event of that request that the client has not received
}

// FromStart is the cursor before the first event that the bus has of a thread.
const FromStart = "0"

// OpenThread returns the frames of a thread after a cursor, and whether the cursor cannot be resumed, so that the
// frames start at the beginning. Without a cursor they start with the running request, or with the next one.
func (l *Logs) OpenThread(ctx context.Context, tenant string, newest bus.ThreadRecord, cursor string) (*Thread, bool, error) {
	t := &Thread{logs: l, tenant: tenant, start: cursor, skip: -1}
	after, reset, err := t.locate(ctx, newest, cursor)
	if err != nil {
		return nil, false, authz.Unavailable(err)
	}
	if reset {
		t.start = FromStart
	}
	t.records, err = l.bus.FollowThread(ctx, tenant, newest.ThreadID, after)
	if err != nil {
		return nil, false, authz.Unavailable(err)
	}
	return t, reset, nil
}

// locate finds the sequence of the record after which to follow the thread.
func (t *Thread) locate(ctx context.Context, newest bus.ThreadRecord, cursor string) (after uint64, reset bool, err error) {
	switch cursor {
	case "":
		after, err = t.afterFinished(ctx, newest)
		return after, false, err
	case FromStart:
		return 0, false, nil
	}
	at, err := parseThreadCursor(cursor)
	if err != nil {
		return 0, false, err
	}
	if at.incarnation != t.logs.bus.Incarnation() {
		return 0, true, nil
	}
	if at.start && at.index == newest.Index+1 {
		return newest.Sequence, false, nil
	}
	for r, err := range t.logs.bus.ThreadRecords(ctx, t.tenant, newest.ThreadID, 0) {
		if err != nil {
			return 0, false, err
		}
		if r.Index > at.index {
			break
		}
		if r.Index < at.index {
			continue
		}
		if at.start {
			return r.Sequence - 1, false, nil
		}
		return t.afterEvent(ctx, r, at.n)
	}
	return 0, true, nil // the bus has lost that request, or it never existed
}

// afterEvent sets the position to that after event n of a record's request.
func (t *Thread) afterEvent(ctx context.Context, r bus.ThreadRecord, n uint64) (after uint64, reset bool, err error) {
	last, err := t.logs.bus.Last(ctx, bus.LogID{Tenant: t.tenant, RequestID: r.RequestID})
	if errors.Is(err, bus.ErrNotFound) {
		return 0, true, nil // the log is empty, so the cursor is not of this log
	}
	if err != nil {
		return 0, false, err
	}
	switch at := position(last, n); {
	case at.Reset:
		return 0, true, nil
	case at.Ended:
		return r.Sequence, false, nil
	default:
		if t.skip, t.from = r.Index, at.From; weaken.Without(weaken.ThreadCursor) {
			t.from++
		}
		return r.Sequence - 1, false, nil
	}
}

// afterFinished returns the newest record's sequence if its request has ended, otherwise the sequence before it.
func (t *Thread) afterFinished(ctx context.Context, newest bus.ThreadRecord) (uint64, error) {
	t.start = startOf(t.logs.bus.Incarnation(), newest.Index+1)
	if newest.Sequence == 0 {
		return 0, nil
	}
	last, err := t.logs.bus.Last(ctx, bus.LogID{Tenant: t.tenant, RequestID: newest.RequestID})
	if errors.Is(err, bus.ErrNotFound) || err == nil && !last.Terminal() {
		t.start = startOf(t.logs.bus.Incarnation(), newest.Index)
		return newest.Sequence - 1, nil
	}
	return newest.Sequence, err
}

// Start returns the cursor of the position where the frames start. A client can resume from it even if it received no
// event.
func (t *Thread) Start() string { return t.start }

// Rewind makes the first request start at its first event, for an encoder whose state depends on earlier events, and
// returns n of the first event of it that the client has not received. Call it before the first Next.
func (t *Thread) Rewind() (from uint64) {
	from, t.from = t.from, 0
	return from
}

// AgentID is the agent of the request of the last frame.
func (t *Thread) AgentID() string { return t.agentID }

// Index is the index of the request of the last frame.
func (t *Thread) Index() int { return t.index }

// AppendCursor appends the thread's cursor of event n of the request of the last frame.
func (t *Thread) AppendCursor(dst []byte, incarnation string, n uint64) []byte {
	return appendThreadCursor(dst, incarnation, t.index, n)
}

// RequestCursor returns the function for cursors of the thread, for a client that reads only the request with an index
// and may resume with the whole thread.
func RequestCursor(index int) codec.CursorFunc {
	return func(dst []byte, incarnation string, n uint64) []byte {
		return appendThreadCursor(dst, incarnation, index, n)
	}
}

func appendThreadCursor(dst []byte, incarnation string, index int, n uint64) []byte {
	dst = append(append(dst, incarnation...), '-')
	dst = append(strconv.AppendInt(dst, int64(index), 10), '.')
	return strconv.AppendUint(dst, n, 10)
}

// Next returns the next frame of the thread. It returns io.EOF, as a [Deleted], when the thread is deleted.
func (t *Thread) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	for {
		if t.current == nil {
			if err := t.advance(ctx, wait); err != nil {
				return event.Frame{}, err
			}
			continue
		}
		f, err := t.current.Next(ctx, wait)
		if f.Terminal() || errors.Is(err, io.EOF) {
			t.current.Close()
			t.current = nil
		}
		if !errors.Is(err, io.EOF) {
			return f, err
		}
	}
}

// advance opens the thread's next request.
func (t *Thread) advance(ctx context.Context, wait time.Duration) error {
	next, err := t.records.Next(ctx, wait)
	if err != nil {
		return err
	}
	if next.Deleted {
		return &Deleted{next.Thread}
	}
	request := authz.Request{Accepted: record.Accepted{Tenant: t.tenant, RequestID: next.RequestID}}
	from := uint64(0)
	if next.Index == t.skip {
		from = t.from
	}
	t.index, t.agentID = next.Index, next.AgentID
	t.current, err = t.logs.Open(ctx, request, from)
	return err
}

// Ready reports whether Next would return without waiting.
func (t *Thread) Ready() bool { return t.current != nil && t.current.Ready() }

// Close frees the resources of the thread.
func (t *Thread) Close() {
	if t.current != nil {
		t.current.Close()
	}
	t.records.Close()
}

// threadCursor is a position in a thread: after event n of a request, or before its first event.
type threadCursor struct {
	incarnation string
	index       int // of the request
	n           uint64
	start       bool // before its first event
}

// atStart is written in place of n for the position before the first event.
const atStart = "start"

func startOf(incarnation string, index int) string {
	return incarnation + "-" + strconv.Itoa(index) + "." + atStart
}

// CursorBefore returns the cursor of the position before event n of a thread's request with an index.
func CursorBefore(incarnation string, index int, n uint64) string {
	if n == 0 {
		return startOf(incarnation, index)
	}
	return string(appendThreadCursor(nil, incarnation, index, n-1))
}

func parseThreadCursor(cursor string) (threadCursor, error) {
	head, tail, ok := strings.Cut(cursor, ".")
	incarnation, index, err := event.ParseCursor(head)
	if !ok || err != nil || index > 1<<31 {
		return threadCursor{}, errThreadCursor()
	}
	at := threadCursor{incarnation: incarnation, index: int(index), start: tail == atStart}
	if at.start {
		return at, nil
	}
	at.n, err = strconv.ParseUint(tail, 10, 63)
	if err != nil || strconv.FormatUint(at.n, 10) != tail {
		return threadCursor{}, errThreadCursor()
	}
	return at, nil
}

func errThreadCursor() error {
	return apierr.New(apierr.InvalidMessageFormat,
		"the id to resume after must be one that this thread's stream gave, like k3f9-2.17, or 0 for all of it")
}
