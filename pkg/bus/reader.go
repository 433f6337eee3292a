package bus

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// Last returns the newest frame of a log, from the leader. ErrNotFound when the log is empty.
func (b *Bus) Last(ctx context.Context, log LogID) (event.Frame, error) {
	subject, err := b.subject(kindEvent, log.Tenant, log.RequestID)
	if err != nil {
		return event.Frame{}, err
	}
	m, err := b.last(ctx, b.eventsStream(), subject)
	if err != nil {
		return event.Frame{}, err
	}
	return m.frame()
}

// Read yields what is stored of a log when it is called, from event n = from on, without gaps. An empty log yields
// nothing. ErrForgotten when the stream no longer holds event from, though it holds later ones.
func (b *Bus) Read(ctx context.Context, log LogID, from uint64) iter.Seq2[event.Frame, error] {
	return func(yield func(event.Frame, error) bool) {
		newest, err := b.Last(ctx, log)
		if errors.Is(err, ErrNotFound) {
			return
		}
		if err != nil {
			yield(event.Frame{}, err)
			return
		}
		subject, err := b.subject(kindEvent, log.Tenant, log.RequestID)
		if err != nil {
			yield(event.Frame{}, err)
			return
		}
		r := storedLog{
			bus: b, subject: subject, n: from, known: Known{Newest: newest}, lease: b.replay.Lease(log.Tenant),
			turn: b.turns.Turn(unpaced + log.Tenant),
		}
		defer r.release()
		for r.n < newest.Next() {
			frame, found, err := r.next(ctx, time.Time{})
			if err == nil && !found {
				err = pause(ctx, replicaPause)
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

func (b *Bus) readAll(ctx context.Context, log LogID) ([]event.Frame, error) {
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
type Known struct {
	After  uint64      // sequence of a message that is older than the log; 0 = not known
	Newest event.Frame // of the log, some time ago; one without events is not known
}

// seekSlack is how many events before the wanted one a seek may end: to read them costs less than to look further.
const seekSlack = 50

// seek sets the sequence just before a message that holds event n or a few events before it. A log lies scattered over
// the stream, and a cursor does not tell the sequence, so seek guesses where n lies between two messages that it knows,
// and every other time takes the middle, which bounds it when the log grew unevenly.
func (r *storedLog) seek(ctx context.Context) error {
	stream := r.bus.eventsStream()
	newest, err := r.known.Newest, error(nil)
	if newest.Next() <= r.n {
		newest, err = r.place(r.bus.lastDirect(ctx, stream, r.subject))
	}
	if errors.Is(err, ErrNotFound) {
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
		if low, err = r.place(r.bus.nextDirect(ctx, stream, r.subject, 1)); err != nil {
			return err
		}
	}
	for guess := true; low.Next()+seekSlack <= r.n && high.Sequence > low.Sequence+1; guess = !guess {
		at := low.Sequence + (high.Sequence-low.Sequence)/2
		if guess {
			at = between(low, high, r.n-seekSlack/2)
		}
		middle, err := r.place(r.bus.nextDirect(ctx, stream, r.subject, at))
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
func (r *storedLog) place(m stored, err error) (event.Frame, error) {
	if err != nil {
		return event.Frame{}, err
	}
	return parsePlace(m.Header, m.Sequence, m.Time)
}

func (m stored) frame() (event.Frame, error) { return parseFrame(m.Header, m.Data, m.Sequence, m.Time) }
