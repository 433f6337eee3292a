// Package eventstream is the event stream of Agent TARS and Tarko for Go programs: the event that both documents mean,
// in the flat form of S4 and the nested form of S0, and the processor that keeps, filters and hands out such events
// within one process.
//
// Start at [Event]; it knows nothing of the log. Package tarko makes such events of a request's log.
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

// Event is something that happened (S0, AgentEvent; S4, BaseEvent). Members with a zero value are absent from its JSON;
// Type alone must be there.
type Event struct {
	ID        string // unique in its session
	Type      string
	Time      time.Time // kept in milliseconds; order is the stream's, never the clock's
	SessionID string
	Meta      Meta            // of the nested form alone
	Data      json.RawMessage // the members of the type: an object (S4), or any value in the nested form (S0); nil = none
}

// Meta tells where an event comes from (S0, metadata).
type Meta struct {
	Source  string `json:"source,omitempty"`  // the component that emitted it
	Version string `json:"version,omitempty"` // of the protocol; "" stands for [Version]
	TraceID string `json:"traceId,omitempty"`
}

// Version is the protocol's version of an event that does not tell one (S0, Protocol Versioning).
const Version = "1.0"

// ProtocolVersion is the version of the protocol that e keeps to.
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

// flat is the form of S4: the members of the type stand beside id, type and timestamp.
type flat struct {
	ID        string         `json:"id,omitempty"`
	Type      string         `json:"type"`
	Timestamp *float64       `json:"timestamp,omitempty"`
	Rest      jsontext.Value `json:",embed"`
}

// nested is the form of S0: the members of the type stand in data.
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

// AppendFlat appends e as S4 writes it, in one line: {id, type, timestamp, …members of Data}. The session is there only
// as a member of Data. It fails, and leaves dst as it was, when Data is no object or has a member named id, type or
// timestamp.
func (e Event) AppendFlat(dst []byte) ([]byte, error) {
	if e.Type == "" {
		return dst, errNoType
	}
	return appendJSON(dst, e.Type, flat{ID: e.ID, Type: e.Type, Timestamp: millis(e.Time), Rest: jsontext.Value(e.Data)})
}

// AppendNested appends e as S0 writes it, in one line: {id, type, timestamp, sessionId, data, metadata}. It fails, and
// leaves dst as it was, when Data is not JSON.
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

// DecodeNested reads what [Event.AppendNested] writes. It leaves out members that S0 does not know.
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
		return Event{}, fmt.Errorf("the timestamp %g of a %s event is no time: write milliseconds since 1970", *timestamp, kind)
	}
	e.Time = time.UnixMilli(int64(*timestamp)).UTC()
	return e, nil
}

// maxMillis is the last moment that JavaScript knows (ECMAScript, time values).
const maxMillis = 8.64e15

// millis is nil for the zero time.
func millis(t time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	ms := float64(t.UnixMilli())
	return &ms
}
