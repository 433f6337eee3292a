package wire

import (
	words "github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

var _ codec.ThreadEncoder = (*encoder)(nil)

// ThreadStarted implements codec.ThreadEncoder with session_start. The flat vocabulary has no such event.
func (e *encoder) ThreadStarted(dst []byte, t codec.Thread) ([]byte, error) {
	return e.appendSessionEvent(dst, words.SessionStarted(t.ID, t.AgentID, t.CreatedAt))
}

// ThreadDeleted implements codec.ThreadEncoder with session_end, in the nested vocabulary only.
func (e *encoder) ThreadDeleted(dst []byte, t codec.Thread) ([]byte, error) {
	return e.appendSessionEvent(dst, words.SessionEnded(t.ID, t.CreatedAt, t.DeletedAt, t.Messages))
}

// appendSessionEvent appends an event without a cursor, because it is not in a log.
func (e *encoder) appendSessionEvent(dst []byte, one eventstream.Event) ([]byte, error) {
	if !e.nested || e.keep != nil && !e.keep(one) {
		return dst, nil
	}
	var err error
	if e.json, err = e.form(one, e.json[:0]); err != nil {
		return dst, err
	}
	return e.frame(dst, one.Type, false)
}
