package stream

import (
	"errors"
	"io"

	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// Deleted is the io.EOF of a thread's frames: the thread is gone.
type Deleted struct{ record record.Thread }

// Error says so.
func (d *Deleted) Error() string { return "thread " + d.record.ThreadID + " was deleted" }

// Is makes it an io.EOF.
func (*Deleted) Is(target error) bool { return target == io.EOF }

// AppendThreadDeleted adds what the format has to say at the end of frames that end with err.
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

// AppendThreadStarted adds what the format has to say before the first event of a thread.
func AppendThreadStarted(dst []byte, enc codec.Encoder, t codec.Thread) ([]byte, error) {
	if narrator, ok := enc.(codec.ThreadEncoder); ok {
		return narrator.ThreadStarted(dst, t)
	}
	return dst, nil
}
