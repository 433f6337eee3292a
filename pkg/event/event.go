// Package event defines the vocabulary of the system: every fact about a request is an [Event], and all services,
// codecs and clients use these types. schemas/events has the same contract for other languages.
//
// Read names.go for the list, native.go for the nine events of the agent event protocol, extended.go for the others.
package event

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Protocol is the version of the native protocol (agent event protocol, Exports, PROTOCOL_VERSION). Additive changes
// keep it.
const Protocol = "1.0"

// Event is one fact of one request. It is immutable once appended.
type Event struct {
	ID        Cursor    // place in the log, and what a client resumes after
	RequestID string    // the request it belongs to
	Time      time.Time // when it happened by the writer's clock; order is the log's, never the clock's
	Body      Body      // what happened
}

// Body is what happened. Only this package implements it; [Unknown] carries what this build cannot read.
type Body interface {
	Name() Name
	sealed()
}

// envelope has the members that all events share (agent event protocol, Protocol Overview). Rest has the members of the
// body.
type envelope struct {
	Event     Name           `json:"event"`
	ID        Cursor         `json:"id"`
	RequestID string         `json:"requestId"`
	Timestamp time.Time      `json:"timestamp"`
	Rest      jsontext.Value `json:",embed"`
}

// Decode reads one event. An unknown event name gives an [Unknown] body; unknown members of a known body are kept and
// written again by [Encode] (agent event protocol, Extensibility). It rejects text that is not one JSON object with an
// event name.
func Decode(line []byte) (Event, error) {
	var env envelope
	if err := jsonv2.Unmarshal(line, &env); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	if env.Event == "" {
		return Event{}, fmt.Errorf("decode event: member \"event\" is missing")
	}
	body, err := decodeBody(env.Event, json.RawMessage(env.Rest))
	if err != nil {
		return Event{}, fmt.Errorf("decode %s event: %w", env.Event, err)
	}
	return Event{ID: env.ID, RequestID: env.RequestID, Time: env.Timestamp, Body: body}, nil
}

func decodeBody(name Name, rest json.RawMessage) (Body, error) {
	if len(rest) == 0 {
		rest = json.RawMessage("{}")
	}
	decode, ok := decoders[name]
	if !ok {
		return Unknown{Event: name, Rest: NewMembers(slices.Clone(rest))}, nil
	}
	return decode(rest)
}

// IsTerminal reports whether b ends its request (agent event protocol, Terminal Events).
func IsTerminal(b Body) bool { return b.Name().IsTerminal() }
