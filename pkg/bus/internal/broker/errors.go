package broker

import (
	"errors"
	"fmt"

	"github.com/agentbus/agentbus/pkg/record"
)

var (
	// ErrNotFound is record.ErrNotFound.
	ErrNotFound = record.ErrNotFound
	// ErrConflict is record.ErrConflict.
	ErrConflict = record.ErrConflict
	// ErrFenced says that another runner has claimed the log: the caller must stop at once and acknowledge nothing.
	ErrFenced = errors.New("fenced: another runner has claimed the log")
	// ErrEnded says that the log has its terminal event.
	ErrEnded = errors.New("the request has ended")
	// ErrIdle says that no message came within the given time.
	ErrIdle = errors.New("no new message")
	// ErrThrottled is the ErrIdle of a reader that waits for memory, or for its turn, because of other readers of storage.
	ErrThrottled = fmt.Errorf("other readers of storage use the budget: %w", ErrIdle)
	// ErrExpired says that the stream no longer has these events; history does.
	ErrExpired = errors.New("these events have expired from the stream")
	// ErrDamaged says that a payload differs from the stored one.
	ErrDamaged = errors.New("differs from what was stored")
	// ErrTooLarge says that an event or record cannot fit into one message.
	ErrTooLarge = errors.New("too large for one message")
)
