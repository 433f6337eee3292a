package sqlstore

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// maxActionFrames bounds how many frames with actions are read of one request.
const maxActionFrames = 100

// Continuations lists the continuations of those requests that have ended with done, by request.
func (s *Store) Continuations(ctx context.Context, tenant string, requestIDs []string) ([]store.Event, error) {
	if len(requestIDs) == 0 {
		return nil, nil
	}
	ids := make([]any, len(requestIDs))
	for i, requestID := range requestIDs {
		ids[i] = requestID
	}
	c := selection(ofThread).and("r.tenant = ?", tenant).and("r.status = ?", string(historyapi.StatusDone)).
		and("r.request_id IN ("+strings.TrimSuffix(strings.Repeat("?, ", len(ids)), ", ")+")", ids...).
		and("f.beyond").and(s.dialect.Find+"(f.names, ?) > 0", string(event.NameContinuation))
	var found []store.Event
	_, err := c.frames(ctx, s.read, "r.request_id, f.last_n", maxActionFrames*len(ids), func(of origin, f event.Frame) bool {
		for line := range f.Each() {
			if line.Name == event.NameContinuation {
				found = append(found, store.Event{
					Index: of.index, RequestID: of.requestID, N: line.N, Incarnation: f.Incarnation, Name: line.Name,
					JSON: json.RawMessage(bytes.Clone(line.JSON)),
				})
			}
		}
		return true
	})
	if err != nil {
		return nil, s.explain(err, "read actions")
	}
	return found, nil
}
