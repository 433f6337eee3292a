package loop

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// custom writes what a backend has emitted, unless it repeats what a dead runner's turn emitted.
func (s *speech) custom(c backend.Custom) error {
	body, err := event.NewCustom(c.Type, c.Data)
	if err != nil {
		return err
	}
	if len(s.customs) > 0 && !s.run.journal.fits(body) {
		return nil // it was left out before the dead runner wrote the next one
	}
	if len(s.customs) > 0 && s.customs[0].Type == body.Type && bytes.Equal(s.customs[0].Data, body.Data) {
		s.customs = s.customs[1:]
		return nil
	}
	s.customs = nil
	return s.run.journal.tell(body)
}

// fits reports whether an event of an application may be told.
func (j *journal) fits(body event.Custom) bool { return j.unfit(body) == nil }

// unfit says what is wrong with an event of an application, nil when nothing is.
func (j *journal) unfit(body event.Custom) error {
	if j.suits == nil {
		return nil
	}
	return j.suits(body)
}

// tell writes an event of an application. One that does not suit becomes a warning that says so: it breaks no run.
func (j *journal) tell(body event.Custom) error {
	if wrong := j.unfit(body); wrong != nil {
		return j.emit(event.Notice{
			Level: "warning", Message: fmt.Sprintf("An event of type %s was left out: %s", body.Type, brief(wrong)),
		})
	}
	return j.emit(body)
}

// brief is an error in one short line.
func brief(err error) string {
	return head(strings.Join(strings.Fields(clean(err.Error())), " "), 500)
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
		body.ToolCallID = callID
		if written > 0 { // what was left out before it has been told then
			if j.fits(body) {
				written--
			}
			continue
		}
		if err := j.tell(body); err != nil {
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
