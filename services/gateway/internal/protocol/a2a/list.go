package a2a

import (
	"context"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a/wire"
)

// list replies with the tasks of a context.
func (s *Server) list(c call, q wire.ListQuery) error {
	defer c.WithTimeout()()
	t, err := s.Guard.Thread(c.Context(), c.Principal(), q.ContextID)
	c.Audit(q.ContextID, "", err)
	switch apierr.CodeOf(err) {
	case "":
	case apierr.ThreadNotFound, apierr.ThreadAccessDenied: // a list has what the caller may see
		return c.reply(q.Page(nil))
	default:
		return err
	}
	all, err := s.tasks(c.Context(), historyapi.ThreadRef{Tenant: c.Principal().Tenant, ThreadID: t.ThreadID}, c.agentID)
	if err != nil {
		return err
	}
	page := q.Page(all)
	if err := s.complete(c, q, page.Tasks); err != nil {
		return err
	}
	return c.reply(page)
}

// complete adds to tasks what the query asks for in addition to their status.
func (s *Server) complete(c call, q wire.ListQuery, tasks []wire.Task) error {
	if !q.IncludeArtifacts && (q.HistoryLength == nil || *q.HistoryLength == 0) {
		return nil
	}
	for i := range tasks {
		t, err := s.open(c, tasks[i].ID)
		if err != nil {
			return err
		}
		t.close()
		tasks[i] = t.Task().Recent(q.HistoryLength)
		if !q.IncludeArtifacts {
			tasks[i].Artifacts = nil
		}
		if q.HistoryLength == nil {
			tasks[i].History = nil
		}
	}
	return nil
}

// tasks returns the tasks of an agent on a thread, with their status. A task whose request has not begun has no events, and is left
// out.
func (s *Server) tasks(ctx context.Context, thread historyapi.ThreadRef, agentID string) ([]wire.Task, error) {
	q := historyapi.EventsQuery{
		ThreadRef: thread, Limit: inputPage,
		Types: []event.Name{
			event.NameInput, event.NameMetadata, event.NameContinuation, event.NameDone, event.NameError, event.NameAborted,
		},
	}
	l := lister{thread: thread.ThreadID, agentID: agentID}
	for range inputPages {
		page, err := s.History.Events(ctx, q)
		if apierr.CodeOf(err) == apierr.ThreadNotFound {
			return nil, nil // its first request has just begun
		}
		if err != nil {
			return nil, err
		}
		for _, text := range page.Events {
			e, err := event.Decode(text)
			if err != nil {
				return nil, err
			}
			l.add(e)
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			return l.tasks(), nil
		}
	}
	return nil, apierr.New(apierr.MessageTooLarge, "the context has too many tasks to list; get those that you need")
}

// lister finds the tasks of a thread in the events of its requests.
type lister struct {
	thread  string
	agentID string
	current *wire.Fold   // the task of the newest request
	listed  []*wire.Fold // of the agent
}

// add adds the next event.
func (l *lister) add(e event.Event) {
	if b, ok := e.Body.(event.Input); ok && b.SteerID == "" {
		l.begin(e, b)
	}
	if l.current != nil {
		l.current.Add(e)
	}
}

// begin changes to the task of a request.
func (l *lister) begin(e event.Event, b event.Input) {
	if l.current != nil && l.current.State() == wire.StateInputRequired {
		if len(b.ActionResults) > 0 || wire.Continues(b.Metadata) != "" {
			return
		}
		l.current.Add(superseded(l.current.RequestID(), e.Time))
	}
	l.current = wire.NewFold(e.RequestID, l.thread)
	l.current.Forget()
	if b.AgentID == l.agentID {
		l.listed = append(l.listed, l.current)
	}
}

func (l *lister) tasks() []wire.Task {
	all := make([]wire.Task, len(l.listed))
	for i, one := range l.listed {
		all[i] = one.Task()
	}
	return all
}
