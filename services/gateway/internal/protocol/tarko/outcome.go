package tarko

import (
	"encoding/json"
	"fmt"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

// outcome is the result of a query. Tarko's server sends the result; its documentation has the response and the events.
type outcome struct {
	SessionID string            `json:"sessionId,omitempty"` // the session that the call has created
	Result    json.RawMessage   `json:"result,omitzero"`     // the last assistant_message, flat
	Response  string            `json:"response"`            // its content
	Events    []json.RawMessage `json:"events"`              // of the query, nested, without increments
	HasMore   bool              `json:"hasMore,omitzero"`    // not all events fit; the list of the session's events has them

	bytes   int // of Events
	failure *event.Error
	flat    *tarko.Projector
	nested  *tarko.Projector
}

// maxCollected limits the events of an outcome, in bytes, because many queries may run at the same time.
const maxCollected = 2 << 20

func newOutcome(made string) *outcome {
	return &outcome{
		SessionID: made, Events: []json.RawMessage{}, flat: tarko.NewProjector(tarko.Flat), nested: tarko.NewProjector(tarko.Nested),
	}
}

// add adds the next frame of the query's log.
func (o *outcome) add(f event.Frame) error {
	for line := range f.Each() {
		e, err := event.Decode(line.JSON)
		e.ID = event.NewCursor(f.Incarnation, line.N)
		if err != nil {
			return fmt.Errorf("event %d: %w", line.N, err)
		}
		if failure, ok := e.Body.(event.Error); ok {
			o.failure = &failure
		}
		if err := o.addEvent(e); err != nil {
			return err
		}
	}
	return nil
}

func (o *outcome) addEvent(e event.Event) error {
	nested, err := o.nested.Project(e)
	if err != nil {
		return err
	}
	if err := o.addNested(nested); err != nil {
		return err
	}
	flat, err := o.flat.Project(e)
	if err != nil {
		return err
	}
	for _, one := range flat {
		if one.Type != string(tarko.TypeAssistantMessage) {
			continue
		}
		var said tarko.AssistantMessage
		if err := one.Decode(&said); err != nil {
			return err
		}
		o.Response = said.Content
		if o.Result, err = one.AppendFlat(nil); err != nil {
			return err
		}
	}
	return nil
}

// failed is the response to a failed query, as Tarko's server sends it.
type failed struct {
	SessionID string `json:"sessionId,omitempty"`
	Success   bool   `json:"success"`
	Error     reason `json:"error"`
}

type reason struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Details details `json:"details"`
}

type details struct {
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`
}

func (o *outcome) failed() failed {
	e := o.failure
	return failed{o.SessionID, false, reason{"AGENT_EXECUTION_ERROR", e.Message, details{string(e.Code), e.Retryable}}}
}

// addNested adds events, without increments, up to maxCollected.
func (o *outcome) addNested(events []eventstream.Event) error {
	for _, one := range events {
		if tarko.Type(one.Type).IsStreaming() {
			continue
		}
		if o.bytes >= maxCollected {
			o.HasMore = true
			return nil
		}
		text, err := one.AppendNested(nil)
		if err != nil {
			return err
		}
		o.Events, o.bytes = append(o.Events, text), o.bytes+len(text)
	}
	return nil
}
