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
	// ErrIdle says that nothing came in the time given.
	ErrIdle = errors.New("nothing new")
	// ErrNoRoom is the ErrIdle of a reader that has to wait for other readers of storage: for their memory or its turn.
	ErrNoRoom = fmt.Errorf("too much is read for other readers: %w", ErrIdle)
	// ErrForgotten says that the stream no longer holds the events asked for; history does.
	ErrForgotten = errors.New("the stream has forgotten these events")
	// ErrDamaged says that a payload is not the one that was stored.
	ErrDamaged = errors.New("not what was stored")
	// ErrTooLarge says that an event or record cannot fit into one message.
	ErrTooLarge = errors.New("too large for one message")
)
