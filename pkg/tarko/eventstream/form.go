package eventstream

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Form is an encoding of events.
type Form int

// The forms.
const (
	Flat   Form = iota // see [Event.AppendFlat]
	Nested             // see [Event.AppendNested]
)

// Append appends e in the form f.
func (f Form) Append(dst []byte, e Event) ([]byte, error) {
	if f == Nested {
		return e.AppendNested(dst)
	}
	return e.AppendFlat(dst)
}

// Decode reads an event in the form f.
func (f Form) Decode(line []byte) (Event, error) {
	if f == Nested {
		return DecodeNested(line)
	}
	return DecodeFlat(line)
}

// Export writes the stored events that match as an indented JSON array. Data that the flat form cannot have, since it is not
// an object or has a member named id, type or timestamp, is written as a member data.
func (p *Processor) Export(w io.Writer, form Form, f Filter) error {
	array := []json.RawMessage{}
	for _, e := range p.Events(f) {
		line, err := form.Append(nil, e)
		if err != nil && form == Flat {
			line, err = form.Append(nil, wrapped(e))
		}
		if err != nil {
			return err
		}
		array = append(array, line)
	}
	if err := jsonv2.MarshalWrite(w, array, jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("export %d events: %w", len(array), err)
	}
	return nil
}

// wrapped returns e with its data one level deeper.
func wrapped(e Event) Event {
	e.Data = slices.Concat(json.RawMessage(`{"data":`), e.Data, json.RawMessage("}"))
	return e
}

// Import reads the output of [Processor.Export], for [Options.InitialEvents].
func Import(r io.Reader, form Form) ([]Event, error) {
	var array []json.RawMessage
	if err := jsonv2.UnmarshalRead(r, &array); err != nil {
		return nil, fmt.Errorf("import events: %w", err)
	}
	events := make([]Event, 0, len(array))
	for i, line := range array {
		e, err := form.Decode(line)
		if err != nil {
			return nil, fmt.Errorf("import event %d of %d: %w", i+1, len(array), err)
		}
		events = append(events, e)
	}
	return events, nil
}
