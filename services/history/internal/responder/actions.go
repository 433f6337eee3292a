package responder

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// actionThreads is how many threads are searched for one page of actions.
const actionThreads = 200

// Actions lists the actions that an owner's threads wait for, by thread, the most recently changed first.
func (a *Answerer) Actions(ctx context.Context, q historyapi.ActionsQuery) (historyapi.ActionPage, error) {
	page := historyapi.ActionPage{Actions: []historyapi.Action{}}
	size, err := limit(q.Limit, 50, 200)
	if err != nil {
		return page, err
	}
	from, err := readCursor(historyapi.VerbActions, q.Cursor)
	if err != nil {
		return page, err
	}
	threads, err := a.actionThreads(ctx, q, from)
	if err != nil {
		return page, err
	}
	open, err := a.openActions(ctx, q.Tenant, threads)
	if err != nil {
		return page, err
	}
	for i, t := range threads {
		if q.AgentID == "" || q.AgentID == t.AgentID {
			page.Actions = append(page.Actions, open[t.LastRequestID]...)
		}
		if full := len(page.Actions) >= size || i+1 == actionThreads; full && i+1 < len(threads) {
			page.NextCursor = place{List: historyapi.VerbActions, ID: t.ThreadID, UpdatedAt: t.UpdatedAt}.cursor()
			break
		}
	}
	return page, nil
}

// actionThreads returns the threads to search for a page, and one more if there are more.
func (a *Answerer) actionThreads(ctx context.Context, q historyapi.ActionsQuery, from place) ([]historyapi.Session, error) {
	if q.ThreadID != "" {
		t, err := a.Session(ctx, historyapi.ThreadRef{Tenant: q.Tenant, ThreadID: q.ThreadID})
		if err == nil && t.Owner != q.Owner {
			err = noThread(q.ThreadID)
		}
		return []historyapi.Session{t}, err
	}
	if err := checkIDs(q.Tenant); err != nil {
		return nil, err
	}
	if err := a.seeAll(ctx); err != nil {
		return nil, err
	}
	after := store.ThreadPosition{UpdatedAt: from.UpdatedAt, ThreadID: from.ID}
	threads, err := a.store.Threads(ctx, q.Tenant, q.Owner, after, actionThreads+1)
	if err != nil {
		return nil, err
	}
	return threads, a.complete(ctx)
}

// openActions returns the actions that the newest requests of threads have announced, by request.
func (a *Answerer) openActions(ctx context.Context, tenant string, threads []historyapi.Session) (map[string][]historyapi.Action, error) {
	of := make(map[string]historyapi.Thread, len(threads))
	var requestIDs []string
	for _, t := range threads {
		if t.LastRequestID != "" {
			of[t.LastRequestID] = t.Thread
			requestIDs = append(requestIDs, t.LastRequestID)
		}
	}
	events, err := a.store.Continuations(ctx, tenant, requestIDs)
	if err != nil {
		return nil, err
	}
	open := map[string][]historyapi.Action{}
	for _, stored := range events {
		e, err := event.Decode(stored.JSON)
		if err != nil {
			return nil, fmt.Errorf("event %d of request %s: %w", stored.N, stored.RequestID, err)
		}
		c, ok := e.Body.(event.Continuation)
		if !ok {
			continue
		}
		t := of[stored.RequestID]
		open[stored.RequestID] = append(open[stored.RequestID], historyapi.Action{
			ActionID: c.ActionID, Kind: c.Kind, ThreadID: t.ThreadID, RequestID: stored.RequestID, AgentID: t.AgentID,
			Payload: c.Payload, At: e.Time, ExpiresAt: c.ExpiresAt,
		})
	}
	return open, nil
}

// addOpenActions adds the open actions to threads.
func (a *Answerer) addOpenActions(ctx context.Context, tenant string, threads []historyapi.Session) error {
	open, err := a.openActions(ctx, tenant, threads)
	for i := range threads {
		t := &threads[i]
		for _, action := range open[t.LastRequestID] {
			t.OpenActions = append(t.OpenActions, historyapi.OpenAction{
				ActionID: action.ActionID, Kind: action.Kind, ExpiresAt: action.ExpiresAt,
			})
		}
	}
	return err
}
