// Package eventstream is the event stream of Agent TARS and Tarko for Go programs: their event, in Tarko's flat form and the
// nested form of the agentbus design, and a processor that keeps, filters and distributes such events within one process.
//
// Start at [Event]. The package does not depend on the log; package tarko projects the log of a request to such events.
package eventstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Event is one event. Its JSON omits members with a zero value; Type is required.
type Event struct {
	ID        string // unique in its session
	Type      string
	Time      time.Time // in milliseconds; the stream defines the order
	SessionID string
	Meta      Meta            // nested form only
	Data      json.RawMessage // members of the type: an object, or any value in the nested form; nil = none
}

// Meta is the origin of an event.
type Meta struct {
	Source  string `json:"source,omitempty"`  // the component that emitted it
	Version string `json:"version,omitempty"` // of the protocol; "" = [Version]
	TraceID string `json:"traceId,omitempty"`
}

// Version is the protocol's version of an event without one.
const Version = "1.0"

// ProtocolVersion returns the version of the protocol of e.
func (e Event) ProtocolVersion() string {
	if e.Meta.Version == "" {
		return Version
	}
	return e.Meta.Version
}

// Decode reads the members of e's type into the struct that data points to.
func (e Event) Decode(data any) error {
	if len(e.Data) == 0 {
		return nil
	}
	if err := jsonv2.Unmarshal(e.Data, data); err != nil {
		return fmt.Errorf("decode the data of a %s event: %w", e.Type, err)
	}
	return nil
}

// flat is Tarko's form: one object with id, type, timestamp and the members of the type.
type flat struct {
	ID        string         `json:"id,omitempty"`
	Type      string         `json:"type"`
	Timestamp *float64       `json:"timestamp,omitempty"`
	Rest      jsontext.Value `json:",embed"`
}

// nested is the form with the members of the type in data.
type nested struct {
	ID        string          `json:"id,omitempty"`
	Type      string          `json:"type"`
	Timestamp *float64        `json:"timestamp,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Data      json.RawMessage `json:"data"`
	Meta      Meta            `json:"metadata,omitzero"`
}

// wire makes the text safe in one line anywhere: some readers split lines at U+2028 and U+2029.
var wire = jsonv2.JoinOptions(jsontext.EscapeForJS(true), jsonv2.Deterministic(true))

// AppendFlat appends the flat form of e in one line: {id, type, timestamp, …members of Data}. It has the session only if Data
// has it. On an error dst is unchanged: Data is not an object, or has a member named id, type or timestamp.
func (e Event) AppendFlat(dst []byte) ([]byte, error) {
	if e.Type == "" {
		return dst, errNoType
	}
	return appendJSON(dst, e.Type, flat{ID: e.ID, Type: e.Type, Timestamp: millis(e.Time), Rest: jsontext.Value(e.Data)})
}

// AppendNested appends the nested form of e in one line: {id, type, timestamp, sessionId, data, metadata}. If Data is not
// JSON it returns an error and dst is unchanged.
func (e Event) AppendNested(dst []byte) ([]byte, error) {
	if e.Type == "" {
		return dst, errNoType
	}
	data := e.Data
	if len(data) == 0 {
		data = json.RawMessage("{}")
	}
	return appendJSON(dst, e.Type, nested{
		ID: e.ID, Type: e.Type, Timestamp: millis(e.Time), SessionID: e.SessionID, Data: data, Meta: e.Meta,
	})
}

var errNoType = errors.New(`an event needs a type: set the member "type"`)

func appendJSON(dst []byte, kind string, value any) ([]byte, error) {
	line, err := jsonv2.Marshal(value, wire)
	if err != nil {
		return dst, fmt.Errorf("encode a %s event: %w", kind, err)
	}
	return append(dst, line...), nil
}

// DecodeFlat reads what [Event.AppendFlat] writes. A member sessionId is in Data and in SessionID.
func DecodeFlat(line []byte) (Event, error) {
	var f flat
	if err := jsonv2.Unmarshal(line, &f); err != nil {
		return Event{}, fmt.Errorf("decode a flat event: %w", err)
	}
	e, err := decoded(f.ID, f.Type, f.Timestamp)
	if err != nil {
		return Event{}, err
	}
	e.Data = json.RawMessage(f.Rest.Clone())
	var of struct {
		SessionID json.RawMessage `json:"sessionId"`
	}
	if err := e.Decode(&of); err != nil {
		return Event{}, err
	}
	if jsontext.Value(of.SessionID).Kind() == '"' {
		err = jsonv2.Unmarshal(of.SessionID, &e.SessionID)
	}
	return e, err
}

// DecodeNested reads what [Event.AppendNested] writes. It drops unknown members.
func DecodeNested(line []byte) (Event, error) {
	var n nested
	if err := jsonv2.Unmarshal(line, &n); err != nil {
		return Event{}, fmt.Errorf("decode a nested event: %w", err)
	}
	e, err := decoded(n.ID, n.Type, n.Timestamp)
	if err != nil {
		return Event{}, err
	}
	e.SessionID, e.Meta, e.Data = n.SessionID, n.Meta, slices.Clone(n.Data)
	return e, nil
}

func decoded(id, kind string, timestamp *float64) (Event, error) {
	if kind == "" {
		return Event{}, errNoType
	}
	e := Event{ID: id, Type: kind}
	if timestamp == nil {
		return e, nil
	}
	if math.Abs(*timestamp) > maxMillis {
		return Event{}, fmt.Errorf("the timestamp %g of a %s event is not a time: write milliseconds since 1970", *timestamp, kind)
	}
	e.Time = time.UnixMilli(int64(*timestamp)).UTC()
	return e, nil
}

// maxMillis is the largest time value of JavaScript (ECMAScript).
const maxMillis = 8.64e15

// millis returns nil for the zero time.
func millis(t time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	ms := float64(t.UnixMilli())
	return &ms
}
