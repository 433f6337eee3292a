package eventlog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
)

// The sizes of the pages that a reader of a log asks for, in bytes as they are stored. A reader starts with a small page,
// so that one whose client takes nothing keeps little, and asks for more while its pages are read.
const (
	firstPage = 64 << 10
	largePage = 1 << 20
)

// What a page may take before it is known, in bytes: of a page one more message than was asked for, and of a single
// message its events separately.
const (
	beyondPage   = 1 << 20
	singleFrame  = 2 << 20
	messageExtra = 1 << 10 // of a message in memory: its headers
)

// The limits of the rate at which storage is read. The budget limits memory.
const (
	// ReplayBurst is how many bytes the followers of a tenant read at full speed, so that no ordinary resume is delayed.
	ReplayBurst = 64 << 20
	// ReplayRate is how many they read a second after that, for each processor of the process.
	ReplayRate = 8 << 20
	// fetchCost is charged for each read of storage, in addition to the decoded bytes. A log of many short frames costs as much
	// as one of the same size with few long frames.
	fetchCost = 4 << 10
	// unpaced is the prefix of the group of readers that are not followers. Clients do not decide what these read, so it costs
	// nothing. The name of a tenant does not contain a space.
	unpaced = "read "
)

// NewTurns returns the turns of readers of storage. Half of the processors read and decode at one time, so that a processor
// is free for what is live, however many read a log from its start.
func NewTurns() *budget.Turns {
	processors := runtime.GOMAXPROCS(0)
	return budget.NewTurns(max(processors/2, 1), budget.Pace{Rate: float64(processors * ReplayRate), Burst: ReplayBurst})
}

// storedLog reads a log from the stream, page by page, and decodes it message by message. Its lease is charged for what is
// buffered: a page, and the frame that was returned last. If the budget has no space for a page, storedLog reads one message
// at a time; if it has none for that, next waits, and buffers nothing meanwhile. Each message, and each page, is read in a
// turn of the tenant of the log. A turn ends before next returns.
type storedLog struct {
	bus      *Logs
	subject  string
	known    ResumeHint
	lease    *budget.Lease
	turn     *budget.Turn
	n        uint64           // of the next event to return
	sequence uint64           // of the newest returned message; 0 = unknown
	page     []broker.Message // not returned yet
	bytes    int64            // of page
	size     int              // bytes of the newest page; 0 before the first one
	more     bool             // storage may hold more after page
	single   bool             // the budget had no space for a page: messages are read one at a time, with space for their events
}

// next returns the next frame, cut to start at n; false if storage has none now. The previous frame is no longer charged.
// ErrThrottled if the budget has no space, or the reader gets no turn, before until; the zero time means to wait without a
// limit.
func (r *storedLog) next(ctx context.Context, until time.Time) (frame event.Frame, found bool, err error) {
	r.settle()
	if r.sequence == 0 && r.n > 0 {
		if err := r.seek(ctx); err != nil {
			return frame, false, err
		}
	}
	for !found {
		size, err := r.admit(ctx, until)
		if err != nil {
			r.settle()
			return frame, false, err
		}
		var cost int64
		frame, found, cost, err = r.step(ctx, size)
		r.turn.Leave(cost)
		if err != nil || !found && !r.pending() {
			r.settle()
			return frame, false, err
		}
	}
	return frame, true, nil
}

// pending reports whether storage may hold frames that were not returned.
func (r *storedLog) pending() bool { return len(r.page) > 0 || r.more }

// admit waits for the turn, and before that for space for a page, unless a page is buffered. It returns how much to read:
// one message if the budget has no space for a page.
func (r *storedLog) admit(ctx context.Context, until time.Time) (size broker.PageSize, err error) {
	size = broker.FullPage()
	size.Bytes = min(max(2*r.size, firstPage), largePage)
	room := len(r.page) > 0
	if !room && !r.single {
		room = r.lease.Try(int64(size.Bytes) + beyondPage)
	}
	if room && r.turn.Try() {
		return size, nil
	}
	bounded, cancel := ctx, func() {}
	if !until.IsZero() {
		bounded, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	if !room {
		r.single, size = true, broker.PageSize{Messages: 1, Bytes: firstPage}
		err = r.lease.Wait(bounded, singleFrame)
	}
	if err == nil {
		err = r.turn.Take(bounded)
	}
	if err != nil && ctx.Err() == nil {
		err = broker.ErrThrottled
	}
	return size, err
}

// step reads a page, unless one is buffered, and decodes its first message.
func (r *storedLog) step(ctx context.Context, size broker.PageSize) (frame event.Frame, found bool, cost int64, err error) {
	if len(r.page) == 0 {
		cost = fetchCost
		if err := r.fetch(ctx, size); err != nil || len(r.page) == 0 {
			return frame, false, cost, err
		}
	}
	cost += event.UnpackedSize(r.page[0].Data)
	frame, found, err = r.decode()
	return frame, found, cost, err
}

// fetch reads the next page.
func (r *storedLog) fetch(ctx context.Context, size broker.PageSize) (err error) {
	from := max(r.sequence, r.known.After) + 1
	r.more, r.size = false, size.Bytes
	if r.single {
		r.page, err = r.bus.one(ctx, r.bus.conn.EventsStream(), r.subject, from)
		r.more = len(r.page) > 0
	} else {
		r.page, r.more, err = r.bus.conn.Page(ctx, r.bus.conn.EventsStream(), r.subject, from, size)
	}
	r.bytes = 0
	for _, m := range r.page {
		r.bytes += int64(len(m.Data)) + messageExtra
	}
	if !r.single {
		r.lease.Set(r.bytes)
	}
	return err
}

// one returns the next message on subject with a sequence of at least from as a page, an empty one if the stream has no such
// message. It costs the broker less than a page, for which the broker counts the rest.
func (b *Logs) one(ctx context.Context, stream, subject string, from uint64) ([]broker.Message, error) {
	m, err := b.conn.NextDirect(ctx, stream, subject, from)
	if errors.Is(err, broker.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []broker.Message{m}, nil
}

// decode decodes the first message of the page. It finds nothing if the message was returned already, or if the budget has
// no space for its events: then the page is dropped, and the next one contains only that message.
func (r *storedLog) decode() (frame event.Frame, found bool, err error) {
	m := r.page[0]
	lines := event.UnpackedSize(m.Data)
	if !r.single && !r.lease.Try(r.bytes+lines) {
		r.drop()
		r.more, r.size, r.single = true, 0, true
		return frame, false, nil
	}
	r.single = false
	r.page[0] = broker.Message{} // the lease counts its data no more
	r.page = r.page[1:]
	r.bytes -= int64(len(m.Data)) + messageExtra
	if len(r.page) == 0 {
		r.page = nil
	}
	if frame, err = FrameOf(m); err != nil {
		return frame, false, err
	}
	if frame.First > r.n {
		return frame, false, fmt.Errorf("%s has no event %d, but event %d: %w", r.subject, r.n, frame.First, broker.ErrExpired)
	}
	r.lease.Set(r.bytes + lines)
	r.sequence = m.Sequence
	if frame.Next() <= r.n {
		return frame, false, nil
	}
	frame = frame.From(r.n)
	r.n = frame.Next()
	return frame, true, nil
}

// skip records that frame f was returned from the ring.
func (r *storedLog) skip(f event.Frame) {
	r.n, r.sequence = f.Next(), f.Sequence
	r.release()
}

// settle gives back the charge of the frame that was returned last.
func (r *storedLog) settle() { r.lease.Set(r.bytes) }

// drop discards the page.
func (r *storedLog) drop() {
	r.page, r.bytes = nil, 0
	r.settle()
}

// release gives back all charges.
func (r *storedLog) release() {
	r.drop()
	r.more = false
}
