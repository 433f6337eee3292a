package wire

import (
	"github.com/agentbus/agentbus/pkg/eventstream"
	words "github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

var _ codec.ThreadEncoder = (*encoder)(nil)

// ThreadStarted tells the start of a session (S0, session_start), which the flat vocabulary has no word for.
func (e *encoder) ThreadStarted(dst []byte, t codec.Thread) ([]byte, error) {
	return e.appendSessionEvent(dst, words.SessionStarted(t.ID, t.AgentID, t.CreatedAt))
}

// ThreadDeleted tells its end (S0, session_end), likewise.
func (e *encoder) ThreadDeleted(dst []byte, t codec.Thread) ([]byte, error) {
	return e.appendSessionEvent(dst, words.SessionEnded(t.ID, t.CreatedAt, t.DeletedAt, t.Messages))
}

// appendSessionEvent adds an event that has no cursor: it is in no log.
func (e *encoder) appendSessionEvent(dst []byte, one eventstream.Event) ([]byte, error) {
	if !e.nested {
		return dst, nil
	}
	var err error
	if e.json, err = e.form(one, e.json[:0]); err != nil {
		return dst, err
	}
	return e.frame(dst, one.Type, false)
}
