package tarko

import (
	"github.com/agentbus/agentbus/pkg/eventstream"
	words "github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/dialect"
)

var _ dialect.Narrator = (*encoder)(nil)

// Began tells the start of a session (S0, session_start), which the flat vocabulary has no word for.
func (e *encoder) Began(dst []byte, t dialect.Thread) ([]byte, error) {
	return e.narrate(dst, words.SessionStarted(t.ID, t.AgentID, t.BeganAt))
}

// Ended tells its end (S0, session_end), likewise.
func (e *encoder) Ended(dst []byte, t dialect.Thread) ([]byte, error) {
	return e.narrate(dst, words.SessionEnded(t.ID, t.BeganAt, t.EndedAt, t.Messages))
}

// narrate adds an event that has no cursor: it is in no log.
func (e *encoder) narrate(dst []byte, one eventstream.Event) ([]byte, error) {
	if !e.nested {
		return dst, nil
	}
	var err error
	if e.json, err = e.form(one, e.json[:0]); err != nil {
		return dst, err
	}
	return e.frame(dst, one.Type, false)
}
