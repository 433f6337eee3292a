package responder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/go-json-experiment/json"
)

// Request returns the status of a request.
func (a *Answerer) Request(ctx context.Context, q historyapi.RequestRef) (historyapi.Request, error) {
	r, err := a.request(ctx, q)
	if err != nil || r.EndedAt.IsZero() {
		return r.Request, err
	}
	last, err := a.store.Events(ctx, store.Events{
		Tenant: q.Tenant, RequestID: q.RequestID, After: store.Position{N: r.Next - 1}, Limit: 1,
	})
	if err != nil || len(last) == 0 { // none: deleted since
		return r.Request, err
	}
	r.Terminal = last[0].JSON
	var end struct {
		Usage *event.Usage `json:"usage"`
	}
	if err := json.Unmarshal(r.Terminal, &end); err != nil {
		return r.Request, fmt.Errorf("decode the terminal event of %s: %w", q.RequestID, err)
	}
	r.Usage = end.Usage
	return r.Request, nil
}

func (a *Answerer) request(ctx context.Context, q historyapi.RequestRef) (store.Request, error) {
	if err := a.seeRequest(ctx, q); err != nil {
		return store.Request{}, err
	}
	r, err := a.store.Request(ctx, q.Tenant, q.RequestID)
	switch {
	case errors.Is(err, store.ErrDeleted):
		return r, noRequest(q.RequestID)
	case errors.Is(err, store.ErrNotFound):
		if err := a.complete(ctx); err != nil {
			return r, err
		}
		return r, noRequest(q.RequestID)
	}
	return r, err
}

// maxKept is how many requests one question may name.
const maxKept = 10

// Kept returns the first of several requests that is known.
func (a *Answerer) Kept(ctx context.Context, q historyapi.KeptQuery) (historyapi.Kept, error) {
	if len(q.RequestIDs) == 0 || len(q.RequestIDs) > maxKept {
		return historyapi.Kept{}, apierr.New(apierr.InvalidMessageFormat, "requestIds has %d ids, must have 1 to %d", len(q.RequestIDs), maxKept)
	}
	for _, requestID := range q.RequestIDs {
		if err := checkIDs(q.Tenant, requestID); err != nil {
			return historyapi.Kept{}, err
		}
		r, err := a.store.Request(ctx, q.Tenant, requestID)
		switch {
		case err == nil:
			return historyapi.Kept{Request: &r.Request, BodyHash: r.BodyHash}, nil
		case errors.Is(err, store.ErrDeleted):
			return historyapi.Kept{Deleted: true}, nil
		case !errors.Is(err, store.ErrNotFound):
			return historyapi.Kept{}, err
		}
	}
	return historyapi.Kept{}, nil
}

// Stored returns how many bytes are stored of a tenant or of one of its owners.
func (a *Answerer) Stored(ctx context.Context, q historyapi.StoredQuery) (historyapi.Stored, error) {
	if err := checkIDs(q.Tenant); err != nil {
		return historyapi.Stored{}, err
	}
	bytes, err := a.store.Stored(ctx, q.Tenant, q.Owner)
	return historyapi.Stored{Bytes: bytes}, err
}

// Frames returns the next events of a request, internal ones too: it stands in for the log.
func (a *Answerer) Frames(ctx context.Context, q historyapi.FramesQuery) (historyapi.FramePage, error) {
	page := historyapi.FramePage{Frames: []historyapi.Frame{}}
	size, err := limit(q.Limit, 500, 2000)
	if err != nil {
		return page, err
	}
	bytes, err := limit(q.Bytes, pageBytes, pageBytes)
	if err != nil {
		return page, err
	}
	if _, err := a.request(ctx, q.RequestRef); err != nil || q.From > 1<<62 {
		return page, err
	}
	stored, err := a.store.Frames(ctx, store.Frames{
		Tenant: q.Tenant, RequestID: q.RequestID, From: q.From, Limit: size, Bytes: bytes,
	})
	if err != nil {
		return page, err
	}
	if weaken.Without(weaken.WholeHistory) && len(stored) > 3 {
		stored = slices.Delete(stored, 2, 3)
	}
	for len(stored) > 0 {
		run := 1
		for run < len(stored) && follows(stored[run-1], stored[run]) {
			run++
		}
		page.Frames = append(page.Frames, join(stored[:run]))
		stored = stored[run:]
	}
	return page, nil
}

// follows reports whether b may share a frame with a, the frame before it.
func follows(a, b event.Frame) bool { return b.First == a.Next() && b.Incarnation == a.Incarnation }

func join(frames []event.Frame) historyapi.Frame {
	f := historyapi.Frame{Incarnation: frames[0].Incarnation, First: frames[0].First}
	var lines strings.Builder
	for _, part := range frames {
		f.Names = append(f.Names, part.Names...)
		lines.Write(part.Lines)
	}
	f.Lines = lines.String()
	return f
}

// Open lists the requests, of all tenants or of one, that have not ended and are quiet.
func (a *Answerer) Open(ctx context.Context, q historyapi.OpenQuery) (historyapi.OpenPage, error) {
	size, err := limit(q.Limit, 200, 1000)
	if err != nil {
		return historyapi.OpenPage{}, err
	}
	from, err := readCursor(historyapi.VerbOpen, q.Cursor)
	if err != nil {
		return historyapi.OpenPage{}, err
	}
	if q.Tenant > from.Tenant {
		from = place{Tenant: q.Tenant} // the store's list is in the order of tenants
	}
	open, err := a.store.Open(ctx, q.Before, historyapi.RequestRef{Tenant: from.Tenant, RequestID: from.ID}, size+1)
	if q.Tenant != "" {
		open = slices.DeleteFunc(open, func(r historyapi.OpenRequest) bool { return r.Tenant != q.Tenant })
	}
	if err != nil || len(open) <= size {
		return historyapi.OpenPage{Requests: open}, err
	}
	last := open[size-1]
	next := place{List: historyapi.VerbOpen, Tenant: last.Tenant, ID: last.RequestID}
	return historyapi.OpenPage{Requests: open[:size], NextCursor: next.cursor()}, nil
}
