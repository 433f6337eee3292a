package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The error codes of the broker for a write that was not stored.
const (
	CodeWrongLast   = 10071 // the subject has a newer message, or, with one replica, this message is stored already
	CodeWrongLastR3 = 10164 // an earlier write of the subject is still in process: try again
	CodeInProcess   = 10158 // an earlier attempt with this message is still in process: try again
	CodeNoSpace     = 10077 // the stream is full, or a queue has a message on the subject
	codeAccountFull = 10002 // the account has no space
	codeServerFull  = 10023 // the server has no space, by its limit or because its disk is full
	codeMemoryFull  = 10028 // the server has no memory for streams
	codeStorageFull = 10047 // the server has no storage for streams
	codeNoMessage   = 10043 // the stream has no message with this sequence
	codeNotDeleted  = 10057 // the message cannot be deleted, or does not exist: trying again does not help
)

// IsFull reports whether the broker refused a message for lack of space.
func IsFull(code jetstream.ErrorCode) bool {
	switch code {
	case CodeNoSpace, codeAccountFull, codeServerFull, codeMemoryFull, codeStorageFull:
		return true
	default:
		return false
	}
}

// RetryPause is the wait before an append is tried again.
const RetryPause = 20 * time.Millisecond

// CompareAndAppend stores msg on its subject if the newest message of the subject still has sequence last (0 = the subject
// is empty), and returns the new sequence. msgID identifies the attempt, so the caller must not use it for any other message
// of the stream.
//
// It retries until the outcome is certain or ctx is done: a timeout never means "not stored". ErrConflict means that another
// writer was first: the sequence is then that of the newest message. After any other error the outcome is unknown.
func (b *Conn) CompareAndAppend(ctx context.Context, stream string, msg *nats.Msg, msgID string, last uint64) (uint64, error) {
	msg.Header.Set(jetstream.MsgIDHeader, msgID)
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	for {
		ack, err := b.Publish(ctx, msg)
		switch {
		case err != nil && !Retryable(err):
			return 0, fmt.Errorf("write %s: %w", msg.Subject, err)
		case err != nil:
		case ack.Error == nil:
			return ack.Sequence, nil
		case ack.Error.ErrorCode == CodeWrongLast:
			seq, err := b.readBack(ctx, stream, msg.Subject, msgID)
			if err == nil || errors.Is(err, ErrConflict) {
				return seq, err
			}
		case IsFull(ack.Error.ErrorCode):
			b.Space.refuse() // tried again: there may be room by then
		case ack.Error.ErrorCode == CodeWrongLastR3, ack.Error.ErrorCode == CodeInProcess:
		case ack.Error.Code < 500:
			return 0, fmt.Errorf("write %s: %w", msg.Subject, ack.Error)
		}
		if err := Pause(ctx, RetryPause); err != nil {
			return 0, fmt.Errorf("write %s: %w", msg.Subject, err)
		}
	}
}

// readBack reports whether the newest message on subject is ours: it returns ErrConflict if not. A broker of one replica
// responds "wrong last sequence" to the retry of a message that it has stored; one of three responds "duplicate".
func (b *Conn) readBack(ctx context.Context, stream, subject, msgID string) (uint64, error) {
	newest, err := b.Newest(ctx, stream, subject)
	if errors.Is(err, ErrNotFound) {
		return 0, ErrConflict // the subject had a message and has lost it
	}
	if err != nil {
		return 0, err
	}
	if newest.Header.Get(jetstream.MsgIDHeader) != msgID {
		return newest.Sequence, ErrConflict
	}
	b.Observer.Reached("read-back")
	return newest.Sequence, nil
}

// Retryable reports whether the same message may be stored by another attempt.
func Retryable(err error) bool {
	for _, final := range []error{
		nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrHeadersNotSupported, nats.ErrConnectionClosed, context.Canceled,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// Send puts msg into a queue, unless the queue has a message on its subject: each subject of a queue holds one. It retries
// until ctx is done.
func (b *Conn) Send(ctx context.Context, queue string, msg *nats.Msg, msgID string) error {
	msg.Header.Set(jetstream.MsgIDHeader, msgID)
	for {
		ack, err := b.Publish(ctx, msg)
		if err == nil && ack.Error == nil {
			return nil
		}
		if err == nil {
			err = ack.Error
		}
		if ack.Error != nil && ack.Error.ErrorCode == CodeNoSpace {
			if has, _ := b.Has(ctx, queue, msg.Subject); has { // after an error the next attempt asks again
				return nil
			}
		}
		if !Retryable(err) || Pause(ctx, RetryPause) != nil {
			return fmt.Errorf("send %s: %w", msg.Subject, err)
		}
	}
}

// Has reports whether a stream holds a message on subject.
func (b *Conn) Has(ctx context.Context, stream, subject string) (bool, error) {
	_, err := b.Newest(ctx, stream, subject)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
