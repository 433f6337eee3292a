package tarko

import (
	"iter"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

// Events yields the events of log in vocabulary v. The log must be read from the start of a request and include
// extended events: otherwise actions and plans are missing. An error of the log is yielded and ends the sequence.
func Events(log iter.Seq2[event.Event, error], v Vocabulary) iter.Seq2[eventstream.Event, error] {
	return func(yield func(eventstream.Event, error) bool) {
		p := NewProjector(v)
		for e, err := range log {
			var events []eventstream.Event
			if err == nil {
				events, err = p.Project(e)
			}
			if err != nil {
				yield(eventstream.Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}
