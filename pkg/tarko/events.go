package tarko

import (
	"iter"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/eventstream"
)

// Events yields what log says in the words of v. The log must be read from the start of a request, with its extended
// events: without them there is nobody who asks, and no plan. An error of the log is yielded and ends it.
func Events(log iter.Seq2[event.Event, error], v Vocabulary) iter.Seq2[eventstream.Event, error] {
	return func(yield func(eventstream.Event, error) bool) {
		p := NewProjector(v)
		for e, err := range log {
			var told []eventstream.Event
			if err == nil {
				told, err = p.Project(e)
			}
			if err != nil {
				yield(eventstream.Event{}, err)
				return
			}
			for _, e := range told {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}
