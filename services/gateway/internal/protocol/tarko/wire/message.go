package wire

import (
	"cmp"
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	jsonv2 "github.com/go-json-experiment/json"
)

// envelope has the fields that a WebSocket message adds to its event.
type envelope struct {
	SessionID string `json:"sessionId,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}

// encodeMessage encodes the event with the fields of the envelope into e.json.
func (e *encoder) encodeMessage(one eventstream.Event, last bool) error {
	one.SessionID = cmp.Or(e.threadID, one.SessionID)
	add := envelope{SessionID: one.SessionID}
	if last {
		add.Cursor = string(e.id)
	}
	if e.nested {
		add.SessionID = "" // nested events have it already
	} else {
		one.Data, add.SessionID = reserveNames(one)
	}
	var err error
	if e.json, err = e.form(one, e.json[:0]); err != nil || add == (envelope{}) {
		return err
	}
	text, err := jsonv2.Marshal(add)
	if err != nil {
		return err
	}
	e.json = append(append(e.json[:len(e.json)-1], ','), text[1:]...) // an event has at least a type
	return nil
}

// reserveNames ensures that the data of a flat event has no member with a name of the envelope, and returns the session
// id for the envelope, "" if the data of this type contains it. A custom event with such a member is wrapped into a
// member data: it must not look like an event of another session.
func reserveNames(one eventstream.Event) (data json.RawMessage, sessionID string) {
	var has struct {
		SessionID json.RawMessage `json:"sessionId"`
		Cursor    json.RawMessage `json:"cursor"`
	}
	if err := jsonv2.Unmarshal(one.Data, &has); err != nil {
		return one.Data, one.SessionID // the encoding of the event reports the error
	}
	switch {
	case has.SessionID == nil && has.Cursor == nil:
		return one.Data, one.SessionID
	case has.Cursor == nil && one.SessionID != "" && string(has.SessionID) == `"`+one.SessionID+`"`:
		return one.Data, ""
	}
	return append(append([]byte(`{"data":`), one.Data...), '}'), one.SessionID
}
