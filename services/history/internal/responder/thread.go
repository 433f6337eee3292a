package responder

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// The bounds of one answer.
const (
	pageBytes        = 1 << 20 // a page ends with the event that passes this
	transcriptEvents = 100_000
	transcriptBytes  = 32 << 20
)

// whole is an index that no request reaches.
const whole = math.MaxInt32

// Thread returns a thread.
func (a *Answerer) Thread(ctx context.Context, q historyapi.ThreadRef) (historyapi.Thread, error) {
	s, err := a.Session(ctx, q)
	if err != nil {
		return historyapi.Thread{}, err
	}
	one := []historyapi.Session{s}
	err = a.addOpenActions(ctx, q.Tenant, one)
	return one[0].Thread, err
}

// Session returns a thread with what is noted on it.
func (a *Answerer) Session(ctx context.Context, q historyapi.ThreadRef) (historyapi.Session, error) {
	if err := a.seeThread(ctx, q, whole); err != nil {
		return historyapi.Session{}, err
	}
	if err := a.seeSession(ctx, q); err != nil {
		return historyapi.Session{}, err
	}
	return a.thread(ctx, q)
}

func (a *Answerer) thread(ctx context.Context, q historyapi.ThreadRef) (historyapi.Session, error) {
	t, err := a.store.Thread(ctx, q.Tenant, q.ThreadID)
	switch {
	case errors.Is(err, store.ErrDeleted):
		return t, noThread(q.ThreadID)
	case errors.Is(err, store.ErrNotFound):
		if err := a.complete(ctx); err != nil {
			return t, err
		}
		return t, noThread(q.ThreadID)
	}
	return t, err
}

// Threads lists an owner's threads.
func (a *Answerer) Threads(ctx context.Context, q historyapi.ThreadsQuery) (historyapi.ThreadPage, error) {
	sessions, err := a.Sessions(ctx, q)
	if err == nil {
		err = a.addOpenActions(ctx, q.Tenant, sessions.Sessions)
	}
	page := historyapi.ThreadPage{Threads: make([]historyapi.Thread, len(sessions.Sessions)), NextCursor: sessions.NextCursor}
	for i, s := range sessions.Sessions {
		page.Threads[i] = s.Thread
	}
	return page, err
}

// Sessions lists an owner's threads with what is noted on them.
func (a *Answerer) Sessions(ctx context.Context, q historyapi.ThreadsQuery) (historyapi.SessionPage, error) {
	if err := checkIDs(q.Tenant); err != nil {
		return historyapi.SessionPage{}, err
	}
	size, err := limit(q.Limit, 50, 200)
	if err != nil {
		return historyapi.SessionPage{}, err
	}
	from, err := readCursor(historyapi.VerbThreads, q.Cursor)
	if err != nil {
		return historyapi.SessionPage{}, err
	}
	if err := a.seeAll(ctx); err != nil {
		return historyapi.SessionPage{}, err
	}
	after := store.ThreadPosition{UpdatedAt: from.UpdatedAt, ThreadID: from.ID}
	threads, err := a.store.Threads(ctx, q.Tenant, q.Owner, after, size+1)
	if err != nil {
		return historyapi.SessionPage{}, err
	}
	if err := a.complete(ctx); err != nil { // the database may have been emptied after seeAll
		return historyapi.SessionPage{}, err
	}
	if len(threads) <= size {
		return historyapi.SessionPage{Sessions: threads}, nil
	}
	last := threads[size-1]
	next := place{List: historyapi.VerbThreads, ID: last.ThreadID, UpdatedAt: last.UpdatedAt}
	return historyapi.SessionPage{Sessions: threads[:size], NextCursor: next.cursor()}, nil
}

// Events lists a thread's events, without the internal ones and the output of tools, except that of the agents that the
// query names.
func (a *Answerer) Events(ctx context.Context, q historyapi.EventsQuery) (historyapi.EventPage, error) {
	size, from, err := a.openList(ctx, q.ThreadRef, list{historyapi.VerbEvents, q.Cursor, q.Limit, 100, 1000})
	if err != nil {
		return historyapi.EventPage{}, err
	}
	without := internal()
	if len(q.ToolOutputOf) > 0 {
		without = slices.DeleteFunc(without, func(n event.Name) bool { return n == event.NameToolOutput })
	}
	events, err := a.store.Events(ctx, store.Events{
		Tenant: q.Tenant, ThreadID: q.ThreadID, After: from.position(), Names: q.Types, Without: without,
		Since: q.Since, Until: q.Until, Limit: size + 1, Bytes: pageBytes,
		WithoutToolOutput: true, ToolOutputOf: q.ToolOutputOf,
	})
	if err != nil {
		return historyapi.EventPage{}, err
	}
	page := historyapi.EventPage{Events: []json.RawMessage{}}
	bytes := 0
	for i, e := range events {
		if i == size {
			break
		}
		page.Events, bytes = append(page.Events, e.JSON), bytes+len(e.JSON)
		if i+1 == size && len(events) > size || bytes > pageBytes {
			page.NextCursor = place{List: historyapi.VerbEvents, Index: e.Index, ID: e.RequestID, N: e.N + 1}.cursor()
		}
	}
	return page, nil
}

// list is a call for a page of a list, with the default and the maximum of its limit.
type list struct {
	verb, cursor       string
	limit, usual, most int
}

// openList returns the size and the start of a page of a thread's list. It waits until the whole thread is projected.
func (a *Answerer) openList(ctx context.Context, thread historyapi.ThreadRef, l list) (size int, from place, err error) {
	if size, err = limit(l.limit, l.usual, l.most); err != nil {
		return 0, place{}, err
	}
	if from, err = readCursor(l.verb, l.cursor); err != nil {
		return 0, place{}, err
	}
	if err = a.seeThread(ctx, thread, whole); err != nil {
		return 0, place{}, err
	}
	_, err = a.thread(ctx, thread)
	return size, from, err
}

// ThreadFrames lists the events of a thread's requests without the deltas, internal ones too.
func (a *Answerer) ThreadFrames(ctx context.Context, q historyapi.ThreadFramesQuery) (historyapi.ThreadFramePage, error) {
	page := historyapi.ThreadFramePage{Requests: []historyapi.RequestFrames{}}
	size, from, err := a.openList(ctx, q.ThreadRef, list{historyapi.VerbThreadFrames, q.Cursor, q.Limit, 1000, 2000})
	if err != nil {
		return page, err
	}
	events, err := a.store.Events(ctx, store.Events{
		Tenant: q.Tenant, ThreadID: q.ThreadID, After: from.position(), Blocks: true, Without: q.Without,
		Limit: size + 1, Bytes: pageBytes,
	})
	if err != nil {
		return page, err
	}
	bytes := 0
	for i, e := range events {
		if i == size {
			break
		}
		page.Requests, bytes = addEvent(page.Requests, e), bytes+len(e.JSON)
		if i+1 == size && len(events) > size || bytes > pageBytes {
			page.NextCursor = place{List: historyapi.VerbThreadFrames, Index: e.Index, ID: e.RequestID, N: e.N + 1}.cursor()
		}
	}
	return page, nil
}

// addEvent adds an event to the last frame of the last request, if it follows there.
func addEvent(requests []historyapi.RequestFrames, e store.Event) []historyapi.RequestFrames {
	if n := len(requests); n == 0 || requests[n-1].RequestID != e.RequestID {
		requests = append(requests, historyapi.RequestFrames{RequestID: e.RequestID})
	}
	r := &requests[len(requests)-1]
	if n := len(r.Frames); n == 0 || r.Frames[n-1].Incarnation != e.Incarnation ||
		r.Frames[n-1].First+uint64(len(r.Frames[n-1].Names)) != e.N {
		r.Frames = append(r.Frames, historyapi.Frame{Incarnation: e.Incarnation, First: e.N})
	}
	f := &r.Frames[len(r.Frames)-1]
	f.Names, f.Lines = append(f.Names, e.Name), f.Lines+string(e.JSON)+"\n"
	return requests
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

// bytesOf is how many bytes of JSON events have.
func bytesOf(events []store.Event) (bytes int) {
	for _, e := range events {
		bytes += len(e.JSON)
	}
	return bytes
}

// Transcript returns the events that a model needs of the requests of a thread below an index.
func (a *Answerer) Transcript(ctx context.Context, q historyapi.TranscriptQuery) (historyapi.TranscriptAnswer, error) {
	answer := historyapi.TranscriptAnswer{Requests: []historyapi.RequestEvents{}}
	if q.Before < 0 {
		return answer, apierr.New(apierr.InvalidMessageFormat, "before is %d, must be the index of a request", q.Before)
	}
	if err := a.seeThread(ctx, q.ThreadRef, q.Before); err != nil {
		return answer, err
	}
	if _, err := a.thread(ctx, q.ThreadRef); err != nil || q.Before == 0 {
		return answer, err
	}
	events, err := a.store.Events(ctx, store.Events{
		Tenant: q.Tenant, ThreadID: q.ThreadID, Before: q.Before, Blocks: true,
		Without: []event.Name{event.NameClaim}, Limit: transcriptEvents + 1, Bytes: transcriptBytes,
	})
	if err != nil {
		return answer, err
	}
	if len(events) > transcriptEvents || bytesOf(events) > transcriptBytes {
		return answer, apierr.New(apierr.MessageTooLarge,
			"thread %s has more than %d events or %d bytes, too many for one conversation: start another thread",
			q.ThreadID, transcriptEvents, transcriptBytes)
	}
	for _, e := range events {
		if n := len(answer.Requests); n == 0 || answer.Requests[n-1].RequestID != e.RequestID {
			answer.Requests = append(answer.Requests, historyapi.RequestEvents{RequestID: e.RequestID})
		}
		newest := &answer.Requests[len(answer.Requests)-1]
		newest.Events = append(newest.Events, e.JSON)
	}
	return answer, nil
}
