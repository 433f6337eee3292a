// Package event is the vocabulary: everything that happens in a request is an [Event], and every service, dialect and
// client speaks of nothing else. schemas/events holds the same contract for everyone who is not Go.
//
// Read names.go for the list, native.go for the nine events of S2, extended.go for what we add.
package event

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Protocol is the version of the native protocol (S2, Exports, PROTOCOL_VERSION). Additive changes keep it.
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

// envelope is the part that all events share (S2, Protocol Overview). Rest holds the members of the body.
type envelope struct {
	Event     Name           `json:"event"`
	ID        Cursor         `json:"id"`
	RequestID string         `json:"requestId"`
	Timestamp time.Time      `json:"timestamp"`
	Rest      jsontext.Value `json:",embed"`
}

// Decode reads one event. An unknown event name gives an [Unknown] body; unknown members of a known body are kept and
// written again by [Encode] (S2, Extensibility). It refuses text that is not one JSON object with an event name.
func Decode(line []byte) (Event, error) {
	var env envelope
	if err := json.Unmarshal(line, &env); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	if env.Event == "" {
		return Event{}, fmt.Errorf("decode event: member \"event\" is missing")
	}
	body, err := decodeBody(env.Event, env.Rest)
	if err != nil {
		return Event{}, fmt.Errorf("decode %s event: %w", env.Event, err)
	}
	return Event{ID: env.ID, RequestID: env.RequestID, Time: env.Timestamp, Body: body}, nil
}

func decodeBody(name Name, rest jsontext.Value) (Body, error) {
	if len(rest) == 0 {
		rest = jsontext.Value("{}")
	}
	decode, ok := decoders[name]
	if !ok {
		return Unknown{Event: name, Rest: rest.Clone()}, nil
	}
	return decode(rest)
}

// IsTerminal reports whether b ends its request (S2, Terminal Events).
func IsTerminal(b Body) bool { return b.Name().IsTerminal() }
