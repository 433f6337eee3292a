package answer

import (
	"context"
	"errors"
	"math"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/query"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of one answer.
const (
	pageBytes        = 1 << 20 // a page ends with the event that passes this
	transcriptEvents = 100_000
)

// whole is an index that no request reaches.
const whole = math.MaxInt32

// Thread returns a thread.
func (a *Answerer) Thread(ctx context.Context, q query.ThreadRef) (query.Thread, error) {
	if err := a.seeThread(ctx, q, whole); err != nil {
		return query.Thread{}, err
	}
	return a.thread(ctx, q)
}

func (a *Answerer) thread(ctx context.Context, q query.ThreadRef) (query.Thread, error) {
	t, err := a.store.Thread(ctx, q.Tenant, q.ThreadID)
	if errors.Is(err, store.ErrNotFound) {
		return t, noThread(q.ThreadID)
	}
	return t, err
}

// Threads lists an owner's threads as far as they are stored: what was written a moment ago may still be missing, since
// nothing says how far the logs of all threads have come.
func (a *Answerer) Threads(ctx context.Context, q query.ThreadsQuery) (query.ThreadPage, error) {
	if err := checkIDs(q.Tenant); err != nil {
		return query.ThreadPage{}, err
	}
	size, err := limit(q.Limit, 50, 200)
	if err != nil {
		return query.ThreadPage{}, err
	}
	from, err := readCursor(query.VerbThreads, q.Cursor)
	if err != nil {
		return query.ThreadPage{}, err
	}
	after := store.ThreadPosition{UpdatedAt: from.UpdatedAt, ThreadID: from.ID}
	threads, err := a.store.Threads(ctx, q.Tenant, q.Owner, after, size+1)
	if err != nil || len(threads) <= size {
		return query.ThreadPage{Threads: threads}, err
	}
	last := threads[size-1]
	next := place{List: query.VerbThreads, ID: last.ThreadID, UpdatedAt: last.UpdatedAt}
	return query.ThreadPage{Threads: threads[:size], NextCursor: next.cursor()}, nil
}

// Events lists a thread's events, without the internal ones.
func (a *Answerer) Events(ctx context.Context, q query.EventsQuery) (query.EventPage, error) {
	size, err := limit(q.Limit, 100, 1000)
	if err != nil {
		return query.EventPage{}, err
	}
	from, err := readCursor(query.VerbEvents, q.Cursor)
	if err != nil {
		return query.EventPage{}, err
	}
	if err := a.seeThread(ctx, q.ThreadRef, whole); err != nil {
		return query.EventPage{}, err
	}
	if _, err := a.thread(ctx, q.ThreadRef); err != nil {
		return query.EventPage{}, err
	}
	events, err := a.store.Events(ctx, store.Events{
		Tenant: q.Tenant, ThreadID: q.ThreadID, After: from.position(), Names: q.Types, Without: internal(),
		Since: q.Since, Until: q.Until, Limit: size + 1, Bytes: pageBytes,
	})
	if err != nil {
		return query.EventPage{}, err
	}
	page := query.EventPage{Events: []jsontext.Value{}}
	bytes := 0
	for i, e := range events {
		if i == size {
			break
		}
		page.Events, bytes = append(page.Events, e.JSON), bytes+len(e.JSON)
		if i+1 == size && len(events) > size || bytes > pageBytes {
			page.NextCursor = place{List: query.VerbEvents, Index: e.Index, ID: e.RequestID, N: e.N + 1}.cursor()
		}
	}
	return page, nil
}

// internal lists the events that never leave the services.
func internal() []event.Name {
	var names []event.Name
	for _, name := range event.Names() {
		if name.IsInternal() {
			names = append(names, name)
		}
	}
	return names
}

// Transcript returns what a model must know of the requests of a thread below an index.
func (a *Answerer) Transcript(ctx context.Context, q query.TranscriptQuery) (query.TranscriptAnswer, error) {
	answer := query.TranscriptAnswer{Requests: []query.RequestEvents{}}
	if q.Before < 0 {
		return answer, fault.New(fault.InvalidMessageFormat, "before is %d, must be the index of a request", q.Before)
	}
	if err := a.seeThread(ctx, q.ThreadRef, q.Before); err != nil {
		return answer, err
	}
	if _, err := a.thread(ctx, q.ThreadRef); err != nil || q.Before == 0 {
		return answer, err
	}
	events, err := a.store.Events(ctx, store.Events{
		Tenant: q.Tenant, ThreadID: q.ThreadID, Before: q.Before, Blocks: true,
		Without: []event.Name{event.NameClaim, event.NameUsage}, Limit: transcriptEvents + 1,
	})
	if err != nil {
		return answer, err
	}
	if len(events) > transcriptEvents {
		return answer, fault.New(fault.MessageTooLarge,
			"thread %s has more than %d events, too many for one conversation: start another thread", q.ThreadID, transcriptEvents)
	}
	for _, e := range events {
		if n := len(answer.Requests); n == 0 || answer.Requests[n-1].RequestID != e.RequestID {
			answer.Requests = append(answer.Requests, query.RequestEvents{RequestID: e.RequestID})
		}
		newest := &answer.Requests[len(answer.Requests)-1]
		newest.Events = append(newest.Events, e.JSON)
	}
	return answer, nil
}
