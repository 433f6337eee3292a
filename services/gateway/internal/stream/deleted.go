package stream

import (
	"errors"
	"io"

	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// Deleted is the io.EOF of the frames of a deleted thread.
type Deleted struct{ record record.Thread }

// Error implements error.
func (d *Deleted) Error() string { return "thread " + d.record.ThreadID + " was deleted" }

// Is reports that it is an io.EOF.
func (*Deleted) Is(target error) bool { return target == io.EOF }

// AppendThreadDeleted appends the event of the format for the deletion of a thread, if err is a [Deleted].
func AppendThreadDeleted(dst []byte, enc codec.Encoder, err error) ([]byte, error) {
	narrator, ok := enc.(codec.ThreadEncoder)
	gone, deleted := errors.AsType[*Deleted](err)
	if !ok || !deleted || gone.record.Ended == nil {
		return dst, nil
	}
	r := gone.record
	return narrator.ThreadDeleted(dst, codec.Thread{
		ID: r.ThreadID, AgentID: r.AgentID, CreatedAt: r.Ended.BeganAt, DeletedAt: r.Ended.At, Messages: r.Ended.Messages,
	})
}

// AppendThreadStarted appends the event of the format for the start of a thread.
func AppendThreadStarted(dst []byte, enc codec.Encoder, t codec.Thread) ([]byte, error) {
	if narrator, ok := enc.(codec.ThreadEncoder); ok {
		return narrator.ThreadStarted(dst, t)
	}
	return dst, nil
}
