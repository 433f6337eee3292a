package loop

import (
	"bytes"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// custom writes what a backend has emitted, unless it repeats what a dead runner's turn emitted.
func (s *speech) custom(c backend.Custom) error {
	body, err := event.NewCustom(c.Type, c.Data)
	if err != nil {
		return err
	}
	if len(s.customs) > 0 && s.customs[0].Type == body.Type && bytes.Equal(s.customs[0].Data, body.Data) {
		s.customs = s.customs[1:]
		return nil
	}
	s.customs = nil
	return s.run.journal.emit(body)
}

// customs writes what a tool has emitted, behind what a dead runner wrote of it. The executor has told its operators
// about those that cannot be events.
func (j *journal) customs(callID string, events []event.Custom) error {
	written := j.written(callID)
	for _, e := range events {
		body, err := event.NewCustom(e.Type, e.Data)
		if err != nil {
			continue
		}
		if written > 0 {
			written--
			continue
		}
		body.ToolCallID = callID
		if err := j.emit(body); err != nil {
			return err
		}
	}
	return nil
}

// written counts the custom events of a call that the log has.
func (j *journal) written(callID string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.Customs(callID)
}
