package stream

import (
	"errors"
	"io"

	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/dialect"
)

// Deleted is the io.EOF of a thread's frames: the thread is gone.
type Deleted struct{ record record.Thread }

// Error says so.
func (d *Deleted) Error() string { return "thread " + d.record.ThreadID + " was deleted" }

// Is makes it an io.EOF.
func (*Deleted) Is(target error) bool { return target == io.EOF }

// LastWord adds what the format has to say at the end of frames that end with err.
func LastWord(dst []byte, enc dialect.Encoder, err error) ([]byte, error) {
	narrator, ok := enc.(dialect.Narrator)
	gone, deleted := errors.AsType[*Deleted](err)
	if !ok || !deleted || gone.record.Ended == nil {
		return dst, nil
	}
	r := gone.record
	return narrator.Ended(dst, dialect.Thread{
		ID: r.ThreadID, AgentID: r.AgentID, BeganAt: r.Ended.BeganAt, EndedAt: r.Ended.At, Messages: r.Ended.Messages,
	})
}

// FirstWord adds what the format has to say before the first event of a thread.
func FirstWord(dst []byte, enc dialect.Encoder, t dialect.Thread) ([]byte, error) {
	if narrator, ok := enc.(dialect.Narrator); ok {
		return narrator.Began(dst, t)
	}
	return dst, nil
}
