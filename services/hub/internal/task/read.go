package task

import (
	"context"
	"io"
	"iter"

	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub/internal/registry"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

// List returns a page of the tasks of an agent, the newest first, as the hub knows them.
func (d *Service) List(ctx context.Context, q store.TaskQuery) (hubapi.TaskList, error) {
	agent, err := d.registry.Get(ctx, q.Tenant, q.AgentID)
	if err != nil {
		return hubapi.TaskList{}, err
	}
	limit := q.Limit
	q.Limit++ // shows whether there are more
	found, err := d.store.Tasks(ctx, q)
	if err != nil {
		return hubapi.TaskList{}, err
	}
	list := hubapi.TaskList{Tasks: make([]hubapi.Task, 0, limit)}
	for _, t := range found[:min(limit, len(found))] {
		list.Tasks = append(list.Tasks, told(t, agent.Online))
	}
	if len(found) > limit {
		list.Next = found[limit-1].TaskID
	}
	return list, nil
}

// Events opens the events of a task at its agent-server, after the number that resume points to. Without resume they begin with
// the first event and, for a task that has ended, with the last (TARS hub protocol, GET /tasks/:id/stream). An agent that does
// not answer is an apierr.Unavailable error.
func (d *Service) Events(ctx context.Context, r hubapi.TaskRef, resume *uint64) (iter.Seq2[remoteagent.Event, error], error) {
	t, agent, client, err := d.reach(ctx, r)
	if err != nil {
		return nil, err
	}
	client.Attempts = attempts
	now, err := client.Status(ctx, t.TaskID)
	if registry.Unreachable(err) {
		return nil, d.offline(ctx, agent, err)
	}
	if err != nil {
		return nil, refused(agent, err)
	}
	if resume != nil {
		return explained(agent, client.Stream(ctx, t.TaskID, *resume)), nil
	}
	events := explained(agent, client.Stream(ctx, t.TaskID, 0))
	if now.Status.Finished() {
		return last(events), nil
	}
	return events, nil
}

// reach returns a task, its agent, and the client for it.
func (d *Service) reach(ctx context.Context, r hubapi.TaskRef) (t store.Task, agent store.Agent, client *remoteagent.Client, err error) {
	if t, err = d.task(ctx, r); err != nil {
		return t, agent, nil, err
	}
	if agent, err = d.registry.Get(ctx, r.Tenant, r.AgentID); err != nil {
		return t, agent, nil, err
	}
	client, err = d.registry.Client(agent)
	return t, agent, client, err
}

// File opens a file of the folder that a task works in, and returns its size. The caller closes it.
func (d *Service) File(ctx context.Context, r hubapi.TaskRef, name string) (io.ReadCloser, int64, error) {
	t, agent, client, err := d.reach(ctx, r)
	if err != nil {
		return nil, 0, err
	}
	file, size, err := client.File(ctx, t.TaskID, name)
	if registry.Unreachable(err) {
		return nil, 0, d.offline(ctx, agent, err)
	}
	if err != nil {
		return nil, 0, refused(agent, err)
	}
	return file, size, nil
}

// explained words the errors of events for the caller.
func explained(agent store.Agent, events iter.Seq2[remoteagent.Event, error]) iter.Seq2[remoteagent.Event, error] {
	return func(yield func(remoteagent.Event, error) bool) {
		for e, err := range events {
			if err != nil {
				err = refused(agent, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// last skips all events but the terminal one.
func last(events iter.Seq2[remoteagent.Event, error]) iter.Seq2[remoteagent.Event, error] {
	return func(yield func(remoteagent.Event, error) bool) {
		for e, err := range events {
			if err == nil && !remoteagent.IsTerminal(e.Body) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
