package eventlog

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
)

// Last returns the newest frame of a log, from the leader, or record.ErrNotFound if the log is empty.
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

// Read yields the frames that are stored of a log when it is called, from event n = from on, without gaps. An empty log
// yields no frame. The error is ErrExpired if event from has expired from the stream.
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

// ResumeHint describes a part of a log that a caller resumes, and saves reads of storage. The zero value describes nothing.
type ResumeHint struct {
	After  uint64      // sequence of a message before the log; 0 = unknown
	Newest event.Frame // of the log, at some earlier time; without events = unknown
}

// seekSlack is how many events before the wanted one a seek may end: to read them costs less than another step.
const seekSlack = 50

// seek sets the sequence just before a message that contains event n or a few events before it. The messages of a log are
// distributed over the stream, and a cursor does not contain a sequence. So seek estimates the position of n between two
// messages whose positions it has read, and every other time takes the middle, which bounds the number of steps if the log
// grew unevenly.
func (r *storedLog) seek(ctx context.Context) error {
	stream := r.bus.conn.EventsStream()
	newest, err := r.known.Newest, error(nil)
	if newest.Next() <= r.n {
		newest, err = r.position(r.bus.conn.LastDirect(ctx, stream, r.subject))
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
		if low, err = r.position(r.bus.conn.NextDirect(ctx, stream, r.subject, 1)); err != nil {
			return err
		}
	}
	for guess := true; low.Next()+seekSlack <= r.n && high.Sequence > low.Sequence+1; guess = !guess {
		at := low.Sequence + (high.Sequence-low.Sequence)/2
		if guess {
			at = between(low, high, r.n-seekSlack/2)
		}
		middle, err := r.position(r.bus.conn.NextDirect(ctx, stream, r.subject, at))
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

// between returns the sequence above that of low and below that of high at which event n is, if events are distributed
// evenly.
func between(low, high event.Frame, n uint64) uint64 {
	share := float64(n-low.First) / float64(high.First-low.First)
	step := uint64(share * float64(high.Sequence-low.Sequence))
	return low.Sequence + min(max(step, 1), high.Sequence-low.Sequence-1)
}

// position returns the frame of m without its lines: readers wait with it, and lines are not charged to their leases here.
func (r *storedLog) position(m broker.Message, err error) (event.Frame, error) {
	if err != nil {
		return event.Frame{}, err
	}
	return parsePosition(m.Header, m.Sequence, m.Time)
}

// FrameOf returns the frame of a stored message.
func FrameOf(m broker.Message) (event.Frame, error) {
	return ParseFrame(m.Header, m.Data, m.Sequence, m.Time)
}
