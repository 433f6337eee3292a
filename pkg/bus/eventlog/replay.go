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

// The limits of what is read from storage, beside those of memory.
const (
	// ReplayBurst is how many bytes the followers of a tenant read at full speed, so that no ordinary resume is delayed.
	ReplayBurst = 64 << 20
	// ReplayRate is how many they read a second after that, for each processor of the process.
	ReplayRate = 8 << 20
	// fetchCost is charged for each read of storage, besides the bytes that are decoded. Decoding alone costs its bytes: a log of
	// many short frames is as cheap to resume as one of the same size with few long frames.
	fetchCost = 4 << 10
	// unpaced is the start of the group of readers that are no followers. What they read is no client's choice, and costs
	// nothing. No tenant's name has a space.
	unpaced = "read "
)

// NewTurns returns the turns of readers of storage. Half of the processors read and decode at one time, so that a processor
// is free for what is live, however many read a log from its start.
func NewTurns() *budget.Turns {
	processors := runtime.GOMAXPROCS(0)
	return budget.NewTurns(max(processors/2, 1), budget.Pace{Rate: float64(processors * ReplayRate), Burst: ReplayBurst})
}

// storedLog reads a log from the stream, page by page, and decodes it message by message. What it keeps, decoded or not,
// is charged to its lease: a page, and the frame that was given last. Where the budget has no room for a page, it reads
// one message at a time; where it has none for that, next waits, and holds nothing meanwhile. Each message, and each page,
// is read in a turn of the log's tenant. No turn lasts longer than next.
type storedLog struct {
	bus      *Logs
	subject  string
	known    ResumeHint
	lease    *budget.Lease
	turn     *budget.Turn
	n        uint64           // of the next event to give
	sequence uint64           // of the newest message that was given; 0 = not known yet
	page     []broker.Message // not given yet
	bytes    int64            // that page takes
	size     int              // bytes of the newest page; 0 = there was none
	more     bool             // storage may hold more behind page
	single   bool             // there was no room for a page: its messages come one at a time, with room for their events
}

// next returns the next frame, cut to start at n; false when storage has none now. The frame before it is charged no
// more. ErrNoRoom when there is no room, or no turn, until a time; the zero time is none.
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

// pending reports whether storage may hold more than was given.
func (r *storedLog) pending() bool { return len(r.page) > 0 || r.more }

// admit waits for the turn, and before that for room for a page, unless there is one. It returns how much to read: one
// message where there is no room for a page.
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
	patient, cancel := ctx, func() {}
	if !until.IsZero() {
		patient, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	if !room {
		r.single, size = true, broker.PageSize{Messages: 1, Bytes: firstPage}
		err = r.lease.Wait(patient, singleFrame)
	}
	if err == nil {
		err = r.turn.Take(patient)
	}
	if err != nil && ctx.Err() == nil {
		err = broker.ErrNoRoom
	}
	return size, err
}

// step reads a page, unless there is one, and decodes its first message.
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

// one returns the next message on subject with a sequence of at least from as a page, an empty one if there is none. It
// costs the broker less than a page, for which it counts what follows.
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

// decode takes the first message of the page. It finds nothing where the message was given already, and where there is
// no room for its events: then it gives up the page, and the next one brings that message alone.
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
		return frame, false, fmt.Errorf("%s has no event %d, but event %d: %w", r.subject, r.n, frame.First, broker.ErrForgotten)
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

// skip says that frame f was given by other means.
func (r *storedLog) skip(f event.Frame) {
	r.n, r.sequence = f.Next(), f.Sequence
	r.release()
}

// settle gives back what the frame was charged that was given last.
func (r *storedLog) settle() { r.lease.Set(r.bytes) }

// drop gives up the page.
func (r *storedLog) drop() {
	r.page, r.bytes = nil, 0
	r.settle()
}

// release gives up everything.
func (r *storedLog) release() {
	r.drop()
	r.more = false
}
