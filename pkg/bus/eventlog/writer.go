package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/nats-io/nats.go"
)

// Limits of a frame and of what waits for the next one.
const (
	frameBytes      = 64 << 10
	frameEvents     = 4096
	maxBacklogBytes = 1 << 20
)

// Writer appends to one request's log. One append is in flight at a time; what is emitted meanwhile goes into the next
// frame, so a slow model's events go out at once and a fast one's in large frames. It is safe for concurrent use.
type Writer struct {
	bus     *Logs
	subject string
	id      broker.LogID
	epoch   uint64
	inc     string
	wake    chan struct{} // has a place for one: something to append, or closing
	lost    chan struct{} // closed when nothing can be appended any more
	done    chan struct{} // closed when the appender has ended

	mu      sync.Mutex
	moved   *sync.Cond // stored, backlog or err has changed
	next    uint64     // n of the next event
	stored  uint64     // n that follows what is stored
	queue   []batch
	spare   []byte // room of a frame that is stored, for a batch to come
	backlog int    // bytes in queue
	closing bool
	err     error

	// The appender's own.
	sequence uint64 // of the newest message
	room     []byte // for a packed frame
}

// batch is the content of a frame to come.
type batch struct {
	names []event.Name
	lines []byte
}

// Claim makes the caller the only writer of the log: it appends a claim event with the next epoch, which fences every
// earlier writer, and returns the log as it was before. If that was empty, the frame of the claim also contains opening.
// Appends of the writer carry the trace of ctx and stop when ctx is done. The error is ErrEnded if the log has its terminal
// event, and ErrTooLarge if the opening does not fit into one frame.
func (b *Logs) Claim(
	ctx context.Context, log broker.LogID, runner, build string, opening ...event.Body,
) (*Writer, []event.Frame, error) {
	subject, err := b.conn.Subject(broker.KindEvent, log.Tenant, log.RequestID)
	if err != nil {
		return nil, nil, err
	}
	w := &Writer{
		bus: b, subject: subject, id: log, inc: b.conn.Incarnation(),
		wake: make(chan struct{}, 1), lost: make(chan struct{}), done: make(chan struct{}),
	}
	w.moved = sync.NewCond(&w.mu)
	// Most claims are the first, so the log is read only after an attempt that takes it for empty.
	var frames []event.Frame
	for {
		err := w.claim(ctx, frames, event.Claim{Runner: runner, Build: build, TraceID: broker.TraceOf(ctx)}, opening)
		if err == nil {
			break
		}
		if !errors.Is(err, broker.ErrConflict) {
			return nil, nil, err
		}
		if frames, err = b.readAll(ctx, log); err != nil {
			return nil, nil, err
		}
		if len(frames) > 0 && frames[len(frames)-1].Terminal() {
			return nil, frames, broker.ErrEnded
		}
	}
	go w.drain(ctx)
	return w, frames, nil
}

// claim tries to append the claim event after frames.
func (w *Writer) claim(ctx context.Context, frames []event.Frame, claim event.Claim, opening []event.Body) error {
	w.epoch, w.next, w.sequence = 1, 0, 0
	if len(frames) > 0 {
		newest := frames[len(frames)-1]
		w.epoch, w.next, w.sequence = newest.Epoch+1, newest.Next(), newest.Sequence
		opening = nil
	}
	claim.Epoch = w.epoch
	f := event.Frame{Incarnation: w.inc, Epoch: w.epoch, First: w.next}
	for _, body := range append([]event.Body{claim}, opening...) {
		lines, err := w.append(f.Lines, body, f.Next())
		if err != nil {
			return err
		}
		f.Names, f.Lines = append(f.Names, body.Name()), lines
	}
	if len(f.Lines) > broker.MaxClaimBytes {
		return fmt.Errorf("first frame of %d bytes: %w", len(f.Lines), broker.ErrTooLarge)
	}
	// Two runners may attempt the same epoch and the same n: the message id distinguishes them.
	if err := w.store(ctx, f, id.New("claim")); err != nil {
		return err
	}
	w.next, w.stored = f.Next(), f.Next()
	return nil
}

// Epoch returns the number of the claim.
func (w *Writer) Epoch() uint64 { return w.epoch }

// Lost is closed when no more events can be appended: [Writer.Err] returns why.
func (w *Writer) Lost() <-chan struct{} { return w.lost }

// Err returns why no more events can be appended, or nil.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Emit gives each body the next number in the log and queues it. Bodies of one call are in one frame unless they are larger
// than the largest event. Emit blocks while the backlog is large. The error is final: ErrFenced, or what made appending
// impossible. Only ErrTooLarge concerns these events alone, and queues none of them.
func (w *Writer) Emit(bodies ...event.Body) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.backlog > maxBacklogBytes && w.err == nil {
		w.moved.Wait()
	}
	if w.err != nil {
		return w.err
	}
	if w.closing {
		return broker.ErrEnded
	}
	if err := w.enqueue(bodies...); err != nil {
		return err
	}
	for _, body := range bodies {
		if body.Name().IsTerminal() {
			w.bus.conn.Observer.Ending(w.subject, w.epoch)
		}
	}
	w.poke()
	return nil
}

// enqueue adds the events to the newest batch, or to another one if that would become too large. After an error none of them
// is queued. It must be called with mu held.
func (w *Writer) enqueue(bodies ...event.Body) error {
	last := len(w.queue) - 1
	if last < 0 || len(w.queue[last].names)+len(bodies) > frameEvents || len(w.queue[last].lines) >= frameBytes {
		w.queue = append(w.queue, batch{lines: w.spare})
		w.spare = nil
		last++
	}
	newest := &w.queue[last]
	before, had := len(newest.lines), len(newest.names)
	lines, names := newest.lines, newest.names
	for i, body := range bodies {
		longer, err := w.append(lines, body, w.next+uint64(i))
		if err != nil {
			return err
		}
		lines, names = longer, append(names, body.Name())
	}
	size := len(lines) - before
	if size > broker.MaxEventBytes+len(bodies) && len(bodies) > 1 {
		return w.each(bodies)
	}
	w.next += uint64(len(bodies))
	w.backlog += size
	if before > 0 && len(lines) > frameBytes {
		w.queue = append(w.queue, batch{names: slices.Clone(names[had:]), lines: bytes.Clone(lines[before:])})
		return nil
	}
	newest.names, newest.lines = names, lines
	return nil
}

// each queues events one by one that do not fit into one frame.
func (w *Writer) each(bodies []event.Body) error {
	for _, body := range bodies {
		if err := w.enqueue(body); err != nil {
			return err
		}
	}
	return nil
}

// append appends event n to lines. After an error lines is as it was.
func (w *Writer) append(lines []byte, body event.Body, n uint64) ([]byte, error) {
	longer, err := event.Append(lines, event.Event{
		ID: event.NewCursor(w.inc, n), RequestID: w.id.RequestID, Time: w.bus.conn.Now(), Body: body,
	})
	if err != nil {
		return lines, err
	}
	if size := len(longer) - len(lines); size > broker.MaxEventBytes {
		return lines, apierr.Wrap(broker.ErrTooLarge, apierr.MessageTooLarge, "a %s event of %d bytes is too large to be stored", body.Name(), size)
	}
	return append(longer, '\n'), nil
}

// Flush waits until everything that was emitted before is stored.
func (w *Writer) Flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.moved.Broadcast()
	})
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	upTo := w.next
	for w.stored < upTo && w.err == nil && ctx.Err() == nil {
		w.moved.Wait()
	}
	if w.stored >= upTo {
		return nil
	}
	if w.err != nil {
		return w.err
	}
	return ctx.Err()
}

// Close waits until the queued events are stored, and ends the appender.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closing = true
	w.poke()
	w.mu.Unlock()
	<-w.done
}

// poke must be called with mu held, or before the writer is shared.
func (w *Writer) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// drain stores the queue frame by frame until the writer is closed or lost, or ctx is done.
func (w *Writer) drain(ctx context.Context) {
	defer close(w.done)
	for {
		f, closing := w.take()
		if len(f.Names) == 0 {
			if closing {
				return
			}
			select {
			case <-w.wake:
			case <-ctx.Done():
				w.fail(fmt.Errorf("append to %s: %w", w.subject, ctx.Err()))
				return
			}
			continue
		}
		msgID := w.id.Tenant + "/" + w.id.RequestID + "/" + strconv.FormatUint(w.epoch, 10) + "/" + strconv.FormatUint(f.First, 10)
		err := w.store(ctx, f, msgID)
		if errors.Is(err, broker.ErrConflict) {
			err = broker.ErrFenced
			w.bus.conn.Observer.Fenced(w.subject, w.sequence, w.epoch)
		}
		if err != nil {
			w.fail(err)
			return
		}
		w.advance(f)
	}
}

// take makes a frame of the oldest batch.
func (w *Writer) take() (f event.Frame, closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f = event.Frame{Incarnation: w.inc, Epoch: w.epoch, First: w.stored}
	if len(w.queue) == 0 {
		return f, w.closing
	}
	f.Names, f.Lines = w.queue[0].names, w.queue[0].lines
	w.queue = slices.Delete(w.queue, 0, 1)
	w.backlog -= len(f.Lines)
	return f, w.closing
}

func (w *Writer) store(ctx context.Context, f event.Frame, msgID string) error {
	msg := &nats.Msg{Subject: w.subject, Header: nats.Header{}, Data: event.PackLines(w.room, f.Lines)}
	if len(msg.Data) < len(f.Lines) {
		w.room = msg.Data // not shared: the next frame may have it
		msg.Header.Set(headerEncoding, event.LinesEncoding)
	}
	setFrameHeaders(msg.Header, f)
	broker.Inject(ctx, msg.Header)
	sequence, err := w.bus.conn.CompareAndAppend(ctx, w.bus.conn.EventsStream(), msg, msgID, w.sequence)
	if err == nil || errors.Is(err, broker.ErrConflict) {
		w.sequence = sequence // of the newest message, of any writer
	}
	return err
}

func (w *Writer) advance(f event.Frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stored = f.Next()
	if len(w.queue) > 0 { // there is more where this came from
		w.spare = f.Lines[:0]
	}
	w.moved.Broadcast()
}

func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	w.moved.Broadcast()
	close(w.lost)
}
