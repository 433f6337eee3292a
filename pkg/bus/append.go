package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The broker's answers to a write that did not happen.
const (
	codeWrongLast   = 10071 // the subject has moved on, or, with one replica, this very message is stored already
	codeWrongLastR3 = 10164 // an earlier write of the subject is still in process: try again
	codeInProcess   = 10158 // this very message is, since an attempt that took too long: try again
	codeNoRoom      = 10077 // the stream is full, or a queue has a message on the subject
	codeAccountFull = 10002 // the account has no room
	codeServerFull  = 10023 // the server has no room, by its limit or because its disk is full
	codeMemoryFull  = 10028 // the server has no memory for streams
	codeStorageFull = 10047 // the server has no storage for streams
	codeNoMessage   = 10043 // the stream has no message with this sequence
	codeNotDeleted  = 10057 // nor this one, or it cannot be deleted: trying again does not help
)

func noRoom(code jetstream.ErrorCode) bool {
	switch code {
	case codeNoRoom, codeAccountFull, codeServerFull, codeMemoryFull, codeStorageFull:
		return true
	default:
		return false
	}
}

// retryPause is the wait before an append is tried again.
const retryPause = 20 * time.Millisecond

// swap stores msg on its subject if the subject's newest message still has sequence last (0 = there is none), and
// returns the new sequence. msgID makes the attempt recognisable, so it must be the caller's own, on the whole stream.
//
// It retries until it knows what happened or ctx is done: a time-out never means "not stored". ErrConflict means that
// somebody else wrote first: the sequence is then that of the newest message. After any other error the outcome is
// unknown.
func (b *Bus) swap(ctx context.Context, stream string, msg *nats.Msg, msgID string, last uint64) (uint64, error) {
	msg.Header.Set(jetstream.MsgIDHeader, msgID)
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	for {
		ack, err := b.publish(ctx, msg)
		switch {
		case err != nil && !retryable(err):
			return 0, fmt.Errorf("write %s: %w", msg.Subject, err)
		case err != nil:
		case ack.Error == nil:
			return ack.Sequence, nil
		case ack.Error.ErrorCode == codeWrongLast:
			seq, err := b.readBack(ctx, stream, msg.Subject, msgID)
			if err == nil || errors.Is(err, ErrConflict) {
				return seq, err
			}
		case noRoom(ack.Error.ErrorCode):
			b.room.refuse() // tried again: there may be room by then
		case ack.Error.ErrorCode == codeWrongLastR3, ack.Error.ErrorCode == codeInProcess:
		case ack.Error.Code < 500:
			return 0, fmt.Errorf("write %s: %w", msg.Subject, ack.Error)
		}
		if err := pause(ctx, retryPause); err != nil {
			return 0, fmt.Errorf("write %s: %w", msg.Subject, err)
		}
	}
}

// readBack tells whether the newest message on subject is ours. A broker of one replica answers "wrong last sequence"
// to the retry of a message that it has stored; one of three answers "duplicate".
func (b *Bus) readBack(ctx context.Context, stream, subject, msgID string) (uint64, error) {
	newest, err := b.last(ctx, stream, subject)
	if errors.Is(err, ErrNotFound) {
		return 0, ErrConflict // the subject had a message and has lost it
	}
	if err != nil {
		return 0, err
	}
	if newest.Header.Get(jetstream.MsgIDHeader) != msgID {
		return newest.Sequence, ErrConflict
	}
	b.weak.reached("read-back")
	return newest.Sequence, nil
}

// retryable reports whether the same message may be stored by another attempt.
func retryable(err error) bool {
	for _, final := range []error{
		nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrHeadersNotSupported, nats.ErrConnectionClosed, context.Canceled,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// send puts msg into a queue, unless the queue has one on its subject: each has room for one. It retries until ctx is
// done.
func (b *Bus) send(ctx context.Context, queue string, msg *nats.Msg, msgID string) error {
	msg.Header.Set(jetstream.MsgIDHeader, msgID)
	for {
		ack, err := b.publish(ctx, msg)
		if err == nil && ack.Error == nil {
			return nil
		}
		if err == nil {
			err = ack.Error
		}
		if ack.Error != nil && ack.Error.ErrorCode == codeNoRoom {
			if has, _ := b.has(ctx, queue, msg.Subject); has { // who cannot tell tries again
				return nil
			}
		}
		if !retryable(err) || pause(ctx, retryPause) != nil {
			return fmt.Errorf("send %s: %w", msg.Subject, err)
		}
	}
}

// has reports whether a stream holds a message on subject.
func (b *Bus) has(ctx context.Context, stream, subject string) (bool, error) {
	_, err := b.last(ctx, stream, subject)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
