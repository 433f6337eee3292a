package a2a

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a/wire"
)

// successor is the request that follows another one on its thread. It continues the task of the other one if it brings results
// of actions, or if a client of this protocol has named the task. Any other request ends a task that waits.
type successor struct {
	requestID string
	continues bool
	index     int
	sequence  uint64
	at        time.Time
}

// next finds the successor of a request.
func (s *Server) next(ctx context.Context, l *link) (next successor, found bool, err error) {
	for r, err := range s.Bus.ThreadRecords(ctx, l.Tenant, l.ThreadID, max(l.sequence, l.Known.After)) {
		if err != nil {
			return next, false, authz.Unavailable(err)
		}
		if next, found, err = s.follows(ctx, l, r); found || err != nil {
			return next, found, err
		}
	}
	if l.index != unknownIndex {
		return next, false, nil
	}
	return s.nextArchived(ctx, l)
}

// follows reports whether a thread record is that of the successor of a request. If it is the one of the request itself, l gets
// its position.
func (s *Server) follows(ctx context.Context, l *link, r bus.ThreadRecord) (next successor, found bool, err error) {
	if r.RequestID == l.RequestID {
		l.index, l.sequence = r.Index, r.Sequence
	}
	if r.Deleted || l.index == unknownIndex || r.Index != l.index+1 {
		return next, false, nil
	}
	next = successor{requestID: r.RequestID, continues: len(r.Resolves) > 0, index: r.Index, sequence: r.Sequence, at: r.At}
	if next.continues {
		return next, true, nil
	}
	accepted, err := s.Bus.Accepted(ctx, bus.LogID{Tenant: l.Tenant, RequestID: r.RequestID})
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return next, false, authz.Unavailable(err)
	}
	next.continues = wire.Continues(accepted.Note) != ""
	return next, true, nil
}

// Limits of the events that are read to find a successor in history.
const (
	inputPages = 50
	inputPage  = 1000
)

// nextArchived finds the successor of a request whose thread record has expired from the bus.
func (s *Server) nextArchived(ctx context.Context, l *link) (next successor, found bool, err error) {
	q := historyapi.EventsQuery{
		ThreadRef: historyapi.ThreadRef{Tenant: l.Tenant, ThreadID: l.ThreadID}, Types: []event.Name{event.NameInput}, Limit: inputPage,
	}
	passed := false
	for range inputPages {
		page, err := s.History.Events(ctx, q)
		if apierr.CodeOf(err) == apierr.ThreadNotFound {
			return next, false, nil
		}
		if err != nil {
			return next, false, err
		}
		for _, text := range page.Events {
			e, err := event.Decode(text)
			if err != nil {
				return next, false, err
			}
			b, ok := e.Body.(event.Input)
			switch {
			case !ok:
			case e.RequestID == l.RequestID:
				passed = true
			case passed:
				continues := len(b.ActionResults) > 0 || wire.Continues(b.Metadata) != ""
				return successor{requestID: e.RequestID, continues: continues, index: unknownIndex, at: e.Time}, true, nil
			}
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			break
		}
	}
	return next, false, nil
}

// superseded is the end of a task that waits for its client, and whose thread has continued without an answer.
func superseded(requestID string, at time.Time) event.Event {
	return event.Event{
		ID: event.NewCursor("0", 0), RequestID: requestID, Time: at,
		Body: event.Aborted{Reason: "the conversation continued without an answer"},
	}
}
