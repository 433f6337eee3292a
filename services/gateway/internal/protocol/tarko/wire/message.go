package wire

import (
	"cmp"

	"github.com/agentbus/agentbus/pkg/eventstream"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// envelope is what a message has beside the members of its event.
type envelope struct {
	SessionID string `json:"sessionId,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}

// encodeMessage puts the event into e.json with what a message has beside it.
func (e *encoder) encodeMessage(one eventstream.Event, last bool) error {
	one.SessionID = cmp.Or(e.threadID, one.SessionID)
	add := envelope{SessionID: one.SessionID}
	if last {
		add.Cursor = string(e.id)
	}
	if e.nested {
		add.SessionID = "" // every event of S0 has it
	} else {
		one.Data, add.SessionID = reserveNames(one)
	}
	var err error
	if e.json, err = e.form(one, e.json[:0]); err != nil || add == (envelope{}) {
		return err
	}
	text, err := json.Marshal(add)
	if err != nil {
		return err
	}
	e.json = append(append(e.json[:len(e.json)-1], ','), text[1:]...) // an event is never empty: it has a type
	return nil
}

// reserveNames makes room in the data of a flat event for the members beside it, and returns which session is to be told there.
// Many types tell their session themselves. What an application says under these names stands in a member data: it must
// not pass for an event of another session.
func reserveNames(one eventstream.Event) (data jsontext.Value, sessionID string) {
	var has struct {
		SessionID jsontext.Value `json:"sessionId"`
		Cursor    jsontext.Value `json:"cursor"`
	}
	if err := json.Unmarshal(one.Data, &has); err != nil {
		return one.Data, one.SessionID // the encoding of the event says what is wrong
	}
	switch {
	case has.SessionID == nil && has.Cursor == nil:
		return one.Data, one.SessionID
	case has.Cursor == nil && one.SessionID != "" && string(has.SessionID) == `"`+one.SessionID+`"`:
		return one.Data, ""
	}
	return append(append([]byte(`{"data":`), one.Data...), '}'), one.SessionID
}
