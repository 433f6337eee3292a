package eventlog

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
)

// Last returns the newest frame of a log, from the leader. ErrNotFound when the log is empty.
func (b *Logs) Last(ctx context.Context, log broker.LogID) (event.Frame, error) {
	subject, err := b.conn.Subject(broker.KindEvent, log.Tenant, log.RequestID)
	if err != nil {
		return event.Frame{}, err
	}
	m, err := b.conn.Newest(ctx, b.conn.EventsStream(), subject)
	if err != nil {
		return event.Frame{}, err
	}
	return FrameOf(m)
}

// Read yields what is stored of a log when it is called, from event n = from on, without gaps. An empty log yields
// nothing. ErrForgotten when the stream no longer holds event from, though it holds later ones.
func (b *Logs) Read(ctx context.Context, log broker.LogID, from uint64) iter.Seq2[event.Frame, error] {
	return func(yield func(event.Frame, error) bool) {
		newest, err := b.Last(ctx, log)
		if errors.Is(err, broker.ErrNotFound) {
			return
		}
		if err != nil {
			yield(event.Frame{}, err)
			return
		}
		subject, err := b.conn.Subject(broker.KindEvent, log.Tenant, log.RequestID)
		if err != nil {
			yield(event.Frame{}, err)
			return
		}
		r := storedLog{
			bus: b, subject: subject, n: from, known: ResumeHint{Newest: newest}, lease: b.replay.Lease(log.Tenant),
			turn: b.turns.Turn(unpaced + log.Tenant),
		}
		defer r.release()
		for r.n < newest.Next() {
			frame, found, err := r.next(ctx, time.Time{})
			if err == nil && !found {
				err = broker.Pause(ctx, broker.ReplicaPause)
			}
			if err != nil {
				yield(event.Frame{}, err)
				return
			}
			if found && !yield(frame, nil) {
				return
			}
		}
	}
}

func (b *Logs) readAll(ctx context.Context, log broker.LogID) ([]event.Frame, error) {
	var frames []event.Frame
	for f, err := range b.Read(ctx, log, 0) {
		if err != nil {
			return nil, err
		}
		frames = append(frames, f)
	}
	return frames, nil
}

// Known is what somebody knows of a log already: it saves looks. The zero value knows nothing.
type ResumeHint struct {
	After  uint64      // sequence of a message that is older than the log; 0 = not known
	Newest event.Frame // of the log, some time ago; one without events is not known
}

// seekSlack is how many events before the wanted one a seek may end: to read them costs less than to look further.
const seekSlack = 50

// seek sets the sequence just before a message that holds event n or a few events before it. A log lies scattered over
// the stream, and a cursor does not tell the sequence, so seek guesses where n lies between two messages that it knows,
// and every other time takes the middle, which bounds it when the log grew unevenly.
func (r *storedLog) seek(ctx context.Context) error {
	stream := r.bus.conn.EventsStream()
	newest, err := r.known.Newest, error(nil)
	if newest.Next() <= r.n {
		newest, err = r.place(r.bus.conn.LastDirect(ctx, stream, r.subject))
	}
	if errors.Is(err, broker.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	low, high := newest, newest
	switch {
	case newest.First <= r.n:
	case r.known.After > 0:
		low = event.Frame{Sequence: r.known.After + 1}
	default:
		if low, err = r.place(r.bus.conn.NextDirect(ctx, stream, r.subject, 1)); err != nil {
			return err
		}
	}
	for guess := true; low.Next()+seekSlack <= r.n && high.Sequence > low.Sequence+1; guess = !guess {
		at := low.Sequence + (high.Sequence-low.Sequence)/2
		if guess {
			at = between(low, high, r.n-seekSlack/2)
		}
		middle, err := r.place(r.bus.conn.NextDirect(ctx, stream, r.subject, at))
		if err != nil {
			return err
		}
		if middle.First > r.n {
			high = event.Frame{First: middle.First, Sequence: at} // nothing from at on starts before middle
		} else {
			low = middle
		}
	}
	r.sequence = low.Sequence - 1
	return nil
}

// between is the sequence behind low and before high where event n lies if events come evenly.
func between(low, high event.Frame, n uint64) uint64 {
	share := float64(n-low.First) / float64(high.First-low.First)
	step := uint64(share * float64(high.Sequence-low.Sequence))
	return low.Sequence + min(max(step, 1), high.Sequence-low.Sequence-1)
}

// place returns the frame of m without its lines: readers wait with it, and lines are not charged to their leases here.
func (r *storedLog) place(m broker.Message, err error) (event.Frame, error) {
	if err != nil {
		return event.Frame{}, err
	}
	return parsePlace(m.Header, m.Sequence, m.Time)
}

func FrameOf(m broker.Message) (event.Frame, error) {
	return ParseFrame(m.Header, m.Data, m.Sequence, m.Time)
}
