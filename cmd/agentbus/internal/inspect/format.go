package inspect

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	jsonv2 "github.com/go-json-experiment/json"
)

// Format is the format in which events are written.
type Format string

// The formats.
const (
	Native   Format = "native"
	Tarko    Format = "tarko"    // as Tarko's server sends them
	Protocol Format = "protocol" // as Tarko documents them
)

// format has the properties of a Format.
type format struct {
	schemas string                             // the folder of the contract that describes the events
	types   []string                           // valid types of a filter; nil = any, because applications name the types
	write   func(event.Event) ([]entry, error) // takes the events of a log from its start
}

func (f Format) format() (format, error) {
	switch f {
	case Native:
		return format{"events", names(), nativeFormat}, nil
	case Tarko:
		return format{"tarko/flat", nil, tarkoFormat(tarko.Flat, eventstream.Flat)}, nil
	case Protocol:
		return format{"tarko/nested", nil, tarkoFormat(tarko.Nested, eventstream.Nested)}, nil
	default:
		return format{}, fmt.Errorf("format %q does not exist; use %s, %s or %s", f, Native, Tarko, Protocol)
	}
}

// names lists the native events.
func names() []string {
	var all []string
	for _, name := range event.Names() {
		all = append(all, string(name))
	}
	return all
}

// check refuses types that do not exist.
func (f format) check(types []string) error {
	for _, name := range types {
		if f.types != nil && !slices.Contains(f.types, name) {
			return fmt.Errorf("no event is of the type %q; there are %v", name, f.types)
		}
	}
	return nil
}

// entry is an encoded event.
type entry struct {
	request string
	event   eventstream.Event
	line    json.RawMessage
}

// nativeFormat encodes an event as the native protocol does.
func nativeFormat(e event.Event) ([]entry, error) {
	line, err := event.Encode(e)
	if err != nil {
		return nil, err
	}
	data, err := jsonv2.Marshal(e.Body, jsonv2.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode the body of event %s: %w", e.ID, err)
	}
	told := eventstream.Event{ID: string(e.ID), Type: string(e.Body.Name()), Time: e.Time, Data: data}
	return []entry{{e.RequestID, told, line}}, nil
}

// tarkoFormat encodes events in a vocabulary of Tarko.
func tarkoFormat(v tarko.Vocabulary, form eventstream.Form) func(event.Event) ([]entry, error) {
	projector := tarko.NewProjector(v)
	return func(e event.Event) ([]entry, error) {
		told, err := projector.Project(e)
		if err != nil {
			return nil, err
		}
		entries := make([]entry, len(told))
		for i, t := range told {
			line, err := form.Append(nil, t)
			if err != nil {
				return nil, err
			}
			entries[i] = entry{e.RequestID, t, line}
		}
		return entries, nil
	}
}

// entries yields the events of a log in the format f.
func (f format) entries(log iter.Seq2[event.Event, error]) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for e, err := range log {
			var written []entry
			if err == nil {
				written, err = f.write(e)
			}
			if err != nil {
				yield(entry{}, err)
				return
			}
			for _, w := range written {
				if !yield(w, nil) {
					return
				}
			}
		}
	}
}
