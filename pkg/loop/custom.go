package loop

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// custom writes a custom event of a backend, unless a crashed runner has written it.
func (s *turnWriter) custom(c backend.Custom) error {
	body, err := event.NewCustom(c.Type, c.Data)
	if err != nil {
		return err
	}
	if len(s.customs) > 0 && !s.run.events.isValid(body) {
		return nil // it was rejected before the crashed runner wrote the next one
	}
	if len(s.customs) > 0 && s.customs[0].Type == body.Type && bytes.Equal(s.customs[0].Data, body.Data) {
		s.customs = s.customs[1:]
		return nil
	}
	s.customs = nil
	return s.run.events.custom(body)
}

// isValid reports whether a custom event may be written.
func (j *eventWriter) isValid(body event.Custom) bool { return j.validate(body) == nil }

// validate returns why a custom event may not be written, or nil.
func (j *eventWriter) validate(body event.Custom) error {
	if j.validateCustom == nil {
		return nil
	}
	return j.validateCustom(body)
}

// custom writes a custom event. An invalid one becomes a warning and does not fail the request.
func (j *eventWriter) custom(body event.Custom) error {
	if wrong := j.validate(body); wrong != nil {
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

// customs writes the custom events of a tool after those that a crashed runner has written. The executor has logged the
// invalid ones.
func (j *eventWriter) customs(callID string, events []event.Custom, written int) error {
	for _, e := range events {
		body, err := event.NewCustom(e.Type, e.Data)
		if err != nil {
			continue
		}
		body.ToolCallID = callID
		if written > 0 { // the crashed runner has written the warnings about invalid ones
			if j.isValid(body) {
				written--
			}
			continue
		}
		if err := j.custom(body); err != nil {
			return err
		}
	}
	return nil
}

// writtenCustoms counts the custom events of a call that the log has.
func (j *eventWriter) writtenCustoms(callID string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.Customs(callID)
}
