package toolexecutor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
)

// Archive has what the stream no longer keeps. A historyapi.Client is one.
type Archive interface {
	Thread(ctx context.Context, q historyapi.ThreadRef) (historyapi.Thread, error)
	Frames(ctx context.Context, q historyapi.FramesQuery) (historyapi.FramePage, error)
	AllThreadFrames(ctx context.Context, q historyapi.ThreadFramesQuery) iter.Seq2[historyapi.RequestFrames, error]
}

// noArchive is the archive of an executor without history.
type noArchive struct{}

func (noArchive) Thread(context.Context, historyapi.ThreadRef) (historyapi.Thread, error) {
	return historyapi.Thread{}, apierr.New(apierr.ThreadNotFound, "there is no history")
}

func (noArchive) Frames(context.Context, historyapi.FramesQuery) (historyapi.FramePage, error) {
	return historyapi.FramePage{}, apierr.New(apierr.RequestNotFound, "there is no history")
}

func (noArchive) AllThreadFrames(context.Context, historyapi.ThreadFramesQuery) iter.Seq2[historyapi.RequestFrames, error] {
	return func(yield func(historyapi.RequestFrames, error) bool) {
		yield(historyapi.RequestFrames{}, apierr.New(apierr.ThreadNotFound, "there is no history"))
	}
}

// notFound reports whether history does not have the requested data.
func notFound(err error) bool {
	f, ok := errors.AsType[*apierr.Error](err)
	return ok && (f.Code == apierr.ThreadNotFound || f.Code == apierr.RequestNotFound)
}

// records finds what requests and threads were, on the bus and, where that has expired, in history.
type records struct {
	Evidence
	history Archive
}

// thread returns the newest record of a thread, or bus.ErrNotFound. A record of history has sequence 0.
func (r records) thread(ctx context.Context, ref historyapi.ThreadRef) (bus.ThreadRecord, error) {
	t, err := r.history.Thread(ctx, ref)
	if notFound(err) {
		return bus.ThreadRecord{}, bus.ErrNotFound
	}
	if err != nil {
		return bus.ThreadRecord{}, fmt.Errorf("ask history: %w", err)
	}
	return bus.ThreadRecord{Thread: record.Thread{
		ThreadID: t.ThreadID, Owner: t.Owner, AgentID: t.AgentID, RequestID: t.LastRequestID, Index: t.Requests - 1, At: t.UpdatedAt,
	}}, nil
}

// announcedIn lists the actions that a request announces, or fails with bus.ErrNotFound when its log is kept nowhere.
func (r records) announcedIn(ctx context.Context, log bus.LogID) (actions []event.Continuation, err error) {
	empty := true
	for f, err := range r.Read(ctx, log, 0) {
		if errors.Is(err, bus.ErrExpired) {
			return r.archivedIn(ctx, log)
		}
		if err != nil {
			return nil, err
		}
		empty = false
		if actions, err = announcements(actions, f); err != nil {
			return nil, fmt.Errorf("request %s: %w", log.RequestID, err)
		}
	}
	if empty { // all of it has expired
		return r.archivedIn(ctx, log)
	}
	return actions, nil
}

// archivedIn is announcedIn for a log that has expired from the stream.
func (r records) archivedIn(ctx context.Context, log bus.LogID) (actions []event.Continuation, err error) {
	q := historyapi.FramesQuery{RequestRef: historyapi.RequestRef{Tenant: log.Tenant, RequestID: log.RequestID}}
	for {
		page, err := r.history.Frames(ctx, q)
		if notFound(err) {
			return nil, bus.ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("ask history: %w", err)
		}
		if len(page.Frames) == 0 {
			return actions, nil
		}
		for _, f := range page.Frames {
			if actions, err = announcements(actions, f.Event()); err != nil {
				return nil, fmt.Errorf("request %s: %w", log.RequestID, err)
			}
			q.From = f.Event().Next()
		}
	}
}

// archivedBefore lists the actions that the last request of a thread before another one announced, for a request whose
// record has expired from the stream. It fails with bus.ErrNotFound if history does not have the thread.
func (r records) archivedBefore(ctx context.Context, ref historyapi.ThreadRef, requestID string) (actions []event.Continuation, err error) {
	before := ""
	for part, err := range r.history.AllThreadFrames(ctx, historyapi.ThreadFramesQuery{ThreadRef: ref}) {
		if notFound(err) {
			return nil, bus.ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("ask history: %w", err)
		}
		if part.RequestID == requestID {
			break
		}
		if part.RequestID != before { // a request may come in several parts
			before, actions = part.RequestID, nil
		}
		for _, f := range part.Frames {
			if actions, err = announcements(actions, f.Event()); err != nil {
				return nil, fmt.Errorf("request %s: %w", before, err)
			}
		}
	}
	return actions, nil
}

// announcements adds to actions what a frame announces.
func announcements(actions []event.Continuation, f event.Frame) ([]event.Continuation, error) {
	for line := range f.Each() {
		if line.Name != event.NameContinuation {
			continue
		}
		e, err := event.Decode(line.JSON)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", line.N, err)
		}
		if c, ok := e.Body.(event.Continuation); ok {
			actions = append(actions, c)
		}
	}
	return actions, nil
}

// action finds an action by its id.
func action(actions []event.Continuation, id string) (event.Continuation, bool) {
	i := slices.IndexFunc(actions, func(c event.Continuation) bool { return c.ActionID == id })
	if i < 0 {
		return event.Continuation{}, false
	}
	return actions[i], true
}
