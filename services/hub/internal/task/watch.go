package task

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/hub/internal/registry"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

const (
	firstPause  = 500 * time.Millisecond // before a watch tries again
	maxPause    = 15 * time.Second
	attempts    = 2                  // of a stream, in a row, before the agent counts as gone
	giveUpAfter = 7 * 24 * time.Hour // an agent that was away for so long has lost the task
)

// watch follows one task to its end. Its goroutine is the only one that changes the task.
type watch struct {
	service *Service
	task    store.Task
	last    uint64        // number of the newest event
	lost    bool          // the agent could not be reached when it was last tried
	over    string        // the budget that is used up; "" = none
	polls   chan struct{} // signals that the task should be read now

	hold sync.Mutex
	cut  context.CancelFunc // ends the connection that is read now; nil = none is

	progress
}

func newWatch(d *Service, t store.Task) *watch {
	w := &watch{service: d, task: t, polls: make(chan struct{}, 1)}
	w.init(t)
	return w
}

// poll has the watch look at the task now, and not at its next try.
func (w *watch) poll() {
	select {
	case w.polls <- struct{}{}:
	default:
	}
}

// again has the watch begin a new connection now: it carries out what the store says that is wanted.
func (w *watch) again() {
	w.poll()
	w.hold.Lock()
	defer w.hold.Unlock()
	if w.cut != nil {
		w.cut()
	}
}

// connected returns the context of a connection that again cuts, and a function to call after it.
func (w *watch) connected(ctx context.Context) (context.Context, func()) {
	ctx, cut := context.WithCancel(ctx)
	w.hold.Lock()
	defer w.hold.Unlock()
	w.cut = cut
	return ctx, func() {
		cut()
		w.hold.Lock()
		defer w.hold.Unlock()
		w.cut = nil
	}
}

// run follows the task until it has ended or ctx is done.
func (w *watch) run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		before := w.last
		ended, err := w.try(ctx)
		if ended && w.task.TaskID == "" {
			w.service.forget(w.task.Ref)
			return
		}
		if ended {
			w.service.over(w.task.Ref)
			return
		}
		if ctx.Err() != nil {
			return
		}
		w.service.log.WarnContext(ctx, "a task cannot be followed now", telemetry.LogAgent, w.task.AgentID, telemetry.LogTask, w.task.TaskID, "error", err)
		if w.last > before {
			pause = firstPause
		}
		w.wait(ctx, pause)
		pause = min(2*pause, maxPause)
	}
}

// wait waits for the agent's next heartbeat, for a signal, or for pause.
func (w *watch) wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.polls:
	case <-w.service.registry.Await(w.task.AgentID):
	case <-ctx.Done():
	}
}

// try follows the task as long as the agent lets it, and reports whether the task has ended.
func (w *watch) try(ctx context.Context) (ended bool, err error) {
	agent, err := w.service.registry.Get(ctx, w.task.Tenant, w.task.AgentID)
	if apierr.CodeOf(err) == apierr.AgentNotFound {
		return w.fail(ctx, "the agent was removed from the registry")
	}
	if err != nil {
		return false, err
	}
	client, err := w.service.registry.Client(agent)
	if err != nil {
		return false, err
	}
	client.Attempts = attempts
	err = w.stream(ctx, client, agent)
	if err == nil {
		return true, nil
	}
	refusal, isRefusal := errors.AsType[*remoteagent.Refusal](err)
	switch {
	case isRefusal && (refusal.HTTP == http.StatusNotFound || refusal.HTTP == http.StatusGone):
		return w.fail(ctx, "the agent no longer has the task")
	case registry.Unreachable(err) && ctx.Err() == nil:
		return w.away(ctx, agent, err)
	}
	return false, err
}

// stream follows the task's events, and stores its end. Every connection begins with a read of the task's state.
func (w *watch) stream(ctx context.Context, client *remoteagent.Client, agent store.Agent) error {
	if w.task.TaskID == "" {
		if err := w.adopt(ctx, client); err != nil {
			return err
		}
	}
	if _, err := client.Status(ctx, w.task.TaskID); err != nil {
		return err
	}
	if err := w.returned(ctx, agent); err != nil {
		return err
	}
	reading, leave := w.connected(ctx)
	defer leave()
	if err := w.cancelled(ctx, client); err != nil {
		return err
	}
	for e, err := range client.Stream(reading, w.task.TaskID, w.last) {
		if err != nil {
			return err
		}
		w.last = e.ID
		if err := w.take(ctx, client, agent, e.Body); err != nil {
			return err
		}
	}
	now, err := client.Status(ctx, w.task.TaskID)
	if err != nil {
		return err
	}
	if !now.Status.Finished() {
		return fmt.Errorf("the stream of task %s ended before the task", w.task.TaskID)
	}
	return w.end(ctx, now)
}

// cancelled repeats a cancellation that the agent may not have received (TARS hub protocol, Agent Goes Offline
// Mid-Task).
func (w *watch) cancelled(ctx context.Context, client *remoteagent.Client) error {
	wanted, err := w.service.store.CancelWanted(ctx, w.task.Ref)
	if err != nil || !wanted {
		return err
	}
	return w.stop(ctx, client)
}

// stop has the agent cancel the task. A task that has ended meanwhile is not an error.
func (w *watch) stop(ctx context.Context, client *remoteagent.Client) error {
	_, err := client.Cancel(ctx, w.task.TaskID)
	if refusal, ok := errors.AsType[*remoteagent.Refusal](err); ok && refusal.HTTP == http.StatusConflict {
		return nil
	}
	return err
}

// adopt looks for a task of which it is unknown whether the agent accepted it (TARS hub protocol, Network Timeout).
func (w *watch) adopt(ctx context.Context, client *remoteagent.Client) error {
	found, err := client.List(ctx, remoteagent.Query{IdempotencyKey: w.task.Ref})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return remoteagent.Refuse(http.StatusNotFound, remoteagent.TaskNotFound, "the agent never took the task")
	}
	found[0].Status = remoteagent.Running
	return w.put(ctx, merge(w.task, found[0], w.service.registry.Now()))
}

// take takes up one event.
func (w *watch) take(ctx context.Context, client *remoteagent.Client, agent store.Agent, body remoteagent.Body) error {
	if activity := w.observe(body); activity != "" {
		w.task.Activity = activity
	}
	t := w.task
	switch e := body.(type) {
	case remoteagent.Progress:
		t.Turns, t.CostUSD = e.TurnsCompleted, e.CostUSD
		if e.Status == remoteagent.Running {
			t.Status, t.Actions = e.Status, nil
		}
	case remoteagent.ActionRequired:
		t.Turns, t.CostUSD, t.Status, t.Actions = e.TurnsCompleted, e.CostUSD, remoteagent.NeedsAction, e.Actions
	default:
		return nil
	}
	if err := w.put(ctx, t); err != nil {
		return err
	}
	left, what, err := w.service.left(ctx, agent)
	if err != nil || left > 0 || w.over != "" {
		return err
	}
	w.over = what
	w.service.log.WarnContext(ctx, "a task is cancelled: a budget is used up", telemetry.LogAgent, agent.ID, telemetry.LogTask, t.TaskID, "budget", what)
	if err := w.stop(ctx, client); err != nil {
		w.over = ""
		return err
	}
	return nil
}

// away records that the agent is unreachable, reports that to the user, and ends the task if the agent does not come
// back.
func (w *watch) away(ctx context.Context, agent store.Agent, cause error) (ended bool, err error) {
	if err := w.service.registry.Lost(ctx, agent); err != nil {
		return false, err
	}
	if w.service.registry.Now().Sub(agent.LastHeartbeat) > giveUpAfter {
		return w.fail(ctx, "the agent went offline and did not come back")
	}
	if w.lost {
		return false, cause
	}
	w.lost = true
	t := w.task
	t.Notice = hubapi.Offline(t.AgentID, t.Title)
	if err := w.put(ctx, t); err != nil {
		return false, err
	}
	w.say(t.Notice)
	return false, cause
}

// returned notes that the agent answers.
func (w *watch) returned(ctx context.Context, agent store.Agent) error {
	if err := w.service.registry.Alive(ctx, agent); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	w.lost = false
	if w.task.Notice == "" {
		return nil
	}
	t := w.task
	t.Notice = ""
	w.say(fmt.Sprintf("Agent [%s] is back.", t.AgentID))
	return w.put(ctx, t)
}

// fail ends a task without its agent. If no agent has accepted it, the row is deleted: the caller may assign it again.
func (w *watch) fail(ctx context.Context, why string) (ended bool, err error) {
	if w.task.TaskID == "" {
		err = w.service.store.DropTask(ctx, w.task.Ref)
		return err == nil, err
	}
	err = w.end(ctx, remoteagent.Task{
		TaskID: w.task.TaskID, Status: remoteagent.Failed, Error: why, TurnsCompleted: w.task.Turns, CostUSD: w.task.CostUSD,
	})
	return err == nil, err
}

// end settles how the task ended.
func (w *watch) end(ctx context.Context, now remoteagent.Task) error {
	t := merge(w.task, now, w.service.registry.Now())
	if t.EndedAt = now.CompletedAt; t.EndedAt.IsZero() {
		t.EndedAt = t.UpdatedAt
	}
	if w.over != "" && t.Status == remoteagent.Cancelled {
		t.Status, t.Stop, t.Error = remoteagent.MaxBudget, "budget", w.over+" is used up"
	}
	return w.put(ctx, t)
}

// put stores the state of the task, and notifies its followers.
func (w *watch) put(ctx context.Context, t store.Task) error {
	t.UpdatedAt = w.service.registry.Now().UTC()
	if _, err := w.service.store.PutTask(ctx, t); err != nil {
		return err
	}
	w.task = t
	w.update(told(t, !w.lost))
	return nil
}
