package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/budget"
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

// storedLog reads a log from the stream, page by page, and decodes it message by message. What it keeps, decoded or not,
// is charged to its lease: a page, and the frame that was given last. Where the budget has no room for a page, it reads
// one message at a time; where it has none for that, next waits, and holds nothing meanwhile.
type storedLog struct {
	bus      *Bus
	subject  string
	known    Known
	lease    *budget.Lease
	n        uint64   // of the next event to give
	sequence uint64   // of the newest message that was given; 0 = not known yet
	page     []stored // not given yet
	bytes    int64    // that page takes
	size     int      // bytes of the newest page; 0 = there was none
	more     bool     // storage held more behind page
	single   bool     // there was no room for a page: its messages come one at a time, with room for their events
}

// next returns the next frame, cut to start at n; false when storage has none now. The frame before it is charged no
// more. ErrNoRoom when there is no room until a time; the zero time is none.
func (r *storedLog) next(ctx context.Context, until time.Time) (frame event.Frame, found bool, err error) {
	r.settle()
	if r.sequence == 0 && r.n > 0 {
		if err := r.seek(ctx); err != nil {
			return frame, false, err
		}
	}
	for {
		if len(r.page) == 0 {
			if err := r.fetch(ctx, until); err != nil || len(r.page) == 0 {
				r.settle()
				return frame, false, err
			}
		}
		frame, found, err = r.decode(ctx)
		if err != nil || found {
			return frame, found, err
		}
	}
}

// pending reports whether storage holds more than was given.
func (r *storedLog) pending() bool { return len(r.page) > 0 || r.more }

// fetch reads the next page; one message where there is no room for a page.
func (r *storedLog) fetch(ctx context.Context, until time.Time) error {
	size := fullPage()
	size.bytes = min(max(2*r.size, firstPage), largePage)
	if r.single = r.single || !r.lease.Try(int64(size.bytes)+beyondPage); r.single {
		if err := r.wait(ctx, until); err != nil {
			return err
		}
		size = pageSize{messages: 1, bytes: firstPage}
	}
	from := max(r.sequence, r.known.After) + 1
	messages, more, err := r.bus.page(ctx, r.bus.eventsStream(), r.subject, from, size)
	if err != nil {
		return err
	}
	r.page, r.more, r.size, r.bytes = messages, more, size.bytes, 0
	for _, m := range messages {
		r.bytes += int64(len(m.Data)) + messageExtra
	}
	if !r.single {
		r.lease.Set(r.bytes)
	}
	return nil
}

// wait returns when there is room for a single message and its events.
func (r *storedLog) wait(ctx context.Context, until time.Time) error {
	patient, cancel := ctx, func() {}
	if !until.IsZero() {
		patient, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	err := r.lease.Wait(patient, singleFrame)
	if err != nil && ctx.Err() == nil {
		return ErrNoRoom
	}
	return err
}

// decode takes the first message of the page. It finds nothing where the message was given already, and where there is
// no room for its events: then it gives up the page, and the next one brings that message alone.
func (r *storedLog) decode(ctx context.Context) (frame event.Frame, found bool, err error) {
	m := r.page[0]
	lines := event.UnpackedSize(m.Data)
	if !r.single && !r.lease.Try(r.bytes+lines) {
		r.drop()
		r.more, r.size, r.single = true, 0, true
		return frame, false, nil
	}
	leave, err := r.bus.mayDecode(ctx, m)
	if err != nil {
		return frame, false, err
	}
	defer leave()
	r.single = false
	r.page[0] = stored{} // the lease counts its data no more
	r.page = r.page[1:]
	r.bytes -= int64(len(m.Data)) + messageExtra
	if len(r.page) == 0 {
		r.page = nil
	}
	if frame, err = m.frame(); err != nil {
		return frame, false, err
	}
	if frame.First > r.n {
		return frame, false, fmt.Errorf("%s has no event %d, but event %d: %w", r.subject, r.n, frame.First, ErrForgotten)
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

// mayDecode waits until a message may be decoded. Half of the processors decompress at one time, so that a processor is
// free for what is live, however many read a log from its start. What is not compressed need not wait.
func (b *Bus) mayDecode(ctx context.Context, m stored) (leave func(), err error) {
	if event.UnpackedSize(m.Data) == int64(len(m.Data)) {
		return func() {}, nil
	}
	select {
	case b.decoding <- struct{}{}:
		return func() { <-b.decoding }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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
