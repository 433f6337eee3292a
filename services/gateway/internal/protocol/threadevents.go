package protocol

import (
	"context"
	"iter"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

// Limits of ThreadEvents.
const (
	threadEventPages = 50
	threadEventPage  = 1000 // events
)

// ThreadEvents yields the events of a thread that have one of the types, as history has them: in order, without deltas, and
// at most 50,000. A thread of which history has nothing has no events.
func (s Services) ThreadEvents(ctx context.Context, thread historyapi.ThreadRef, types []event.Name) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		q := historyapi.EventsQuery{ThreadRef: thread, Types: types, Limit: threadEventPage}
		for range threadEventPages {
			page, err := s.History.Events(ctx, q)
			if apierr.CodeOf(err) == apierr.ThreadNotFound {
				return // its first request has just begun
			}
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			for _, text := range page.Events {
				e, err := event.Decode(text)
				if !yield(e, err) || err != nil {
					return
				}
			}
			if q.Cursor = page.NextCursor; q.Cursor == "" {
				return
			}
		}
	}
}
