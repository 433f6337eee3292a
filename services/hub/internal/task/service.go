// Package task assigns work to remote agents and follows it: the five operations of the TARS hub protocol, one watch
// for each open task, budgets, and the progress for people.
//
// The row of a task is stored before the agent receives the task, and kept after its end. So a restarted hub resumes
// the watch of every open task, and a task that an agent has accepted is never lost: the name of its row is its
// Idempotency-Key at the agent.
package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/retry"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/hub/internal/registry"
	"github.com/agentbus/agentbus/services/hub/internal/store"
	"golang.org/x/sync/errgroup"
)

const (
	liveWait = 3 * time.Second // for one agent's answer about itself, in a list of all
	asked    = 16              // agents that are asked at one time
	maxOpen  = 10_000          // tasks that are watched at one time
)

// Service implements hub.Door. It is safe for concurrent use.
type Service struct {
	store    *store.Store
	registry *registry.Registry
	budget   config.Budget
	log      *slog.Logger

	fresh   chan *watch   // to Run
	stopped chan struct{} // closed when Run has ended

	mu      sync.Mutex
	watches map[string]*watch // by ref
	ended   []string          // refs of watches that are over, and kept for those who still read
}

var _ hubapi.Door = (*Service)(nil)

// NewService returns a service. Tasks are watched while Run runs.
func NewService(s *store.Store, r *registry.Registry, b config.Budget, log *slog.Logger) *Service {
	return &Service{
		store: s, registry: r, budget: b, log: log,
		fresh: make(chan *watch), stopped: make(chan struct{}), watches: map[string]*watch{},
	}
}

// Run watches every open task, those of an earlier process too, until ctx is done. It runs once.
func (d *Service) Run(ctx context.Context) error {
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer close(d.stopped)
	open, err := d.open(ctx)
	if err != nil {
		return err
	}
	start := func(w *watch) { watchers.Go(func() { w.run(ctx) }) }
	for _, t := range open {
		if w, isNew := d.watch(t); isNew {
			start(w)
		}
	}
	for {
		select {
		case w := <-d.fresh:
			start(w)
		case <-ctx.Done():
			return nil
		}
	}
}

// open lists the tasks that have not ended. It waits for a database that is away; when ctx is done it returns none.
func (d *Service) open(ctx context.Context) (open []store.Task, err error) {
	err = retry.Policy{
		First: firstPause,
		Final: func(err error) bool { return apierr.CodeOf(err) != apierr.Unavailable },
		Failed: func(err error, _ time.Duration) {
			d.log.WarnContext(ctx, "the open tasks cannot be read; trying again", "error", err)
		},
	}.Do(ctx, func(ctx context.Context) error {
		open, err = d.store.Open(ctx)
		return err
	})
	if ctx.Err() != nil {
		return nil, nil
	}
	return open, err
}

// keptWatches is how many tasks that have ended keep their progress for late readers.
const keptWatches = 128

// watch returns the watch of a task.
func (d *Service) watch(t store.Task) (w *watch, isNew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.watches[t.Ref]; w != nil {
		return w, false
	}
	w = newWatch(d, t)
	d.watches[t.Ref] = w
	return w, true
}

// begin starts the watch of a task. If the service stops, its next start continues the watch.
func (d *Service) begin(ctx context.Context, t store.Task) {
	w, isNew := d.watch(t)
	if !isNew {
		return
	}
	select {
	case d.fresh <- w:
	case <-d.stopped:
	case <-ctx.Done():
		d.forget(t.Ref)
	}
}

func (d *Service) find(ref string) *watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.watches[ref]
}

func (d *Service) forget(ref string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watches, ref)
}

// over keeps the watch of a task that has ended for a while.
func (d *Service) over(ref string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended = append(d.ended, ref); len(d.ended) > keptWatches {
		delete(d.watches, d.ended[0])
		d.ended = d.ended[1:]
	}
}

func (d *Service) full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.watches)-len(d.ended) >= maxOpen
}

// CheckStatus implements hub.Door.
func (d *Service) CheckStatus(ctx context.Context, r hubapi.TaskRef) (hubapi.Task, error) {
	t, err := d.task(ctx, r)
	if err != nil {
		return hubapi.Task{}, err
	}
	if !t.EndedAt.IsZero() {
		return told(t, d.online(ctx, t)), nil
	}
	agent, err := d.registry.Get(ctx, r.Tenant, r.AgentID)
	if err != nil {
		return hubapi.Task{}, err
	}
	client, err := d.registry.Client(agent)
	if err != nil {
		return hubapi.Task{}, err
	}
	now, err := client.Status(ctx, t.TaskID)
	if registry.Unreachable(err) {
		if err := d.registry.Lost(ctx, agent); err != nil {
			return hubapi.Task{}, err
		}
		t.Notice = hubapi.Offline(t.AgentID, t.Title)
		return told(t, false), nil
	}
	if w := d.find(t.Ref); w != nil && (err != nil || now.Status.Finished()) {
		w.poll() // it decides what this means
	}
	if err == nil {
		t = merge(t, now, d.registry.Now())
	}
	return told(t, agent.Online), nil
}

// GetResult implements hub.Door.
func (d *Service) GetResult(ctx context.Context, r hubapi.TaskRef) (hubapi.Task, error) {
	return d.CheckStatus(ctx, r)
}

// CancelTask implements hub.Door.
func (d *Service) CancelTask(ctx context.Context, r hubapi.TaskRef) (hubapi.Cancelled, error) {
	t, err := d.toCancel(ctx, r)
	if err != nil {
		return hubapi.Cancelled{}, err
	}
	if !t.EndedAt.IsZero() {
		return late(t.TaskID, t.Status), nil
	}
	agent, err := d.registry.Get(ctx, r.Tenant, r.AgentID)
	if err != nil {
		return hubapi.Cancelled{}, err
	}
	client, err := d.registry.Client(agent)
	if err != nil {
		return hubapi.Cancelled{}, err
	}
	if err := d.store.WantCancel(ctx, t.Ref); err != nil {
		return hubapi.Cancelled{}, err
	}
	if t.TaskID == "" { // its watch, which runs or is about to, finds it at the agent and cancels it there
		if w := d.find(t.Ref); w != nil {
			w.again()
		}
		return pending(agent, t), nil
	}
	answer, err := client.Cancel(ctx, t.TaskID)
	if w := d.find(t.Ref); w != nil && err == nil {
		w.poll()
	} else if w != nil {
		w.again()
	}
	if refusal, ok := errors.AsType[*remoteagent.Refusal](err); ok && refusal.HTTP == http.StatusConflict {
		return late(t.TaskID, refusal.Status), nil
	}
	if registry.Unreachable(err) {
		return pending(agent, t), d.registry.Lost(ctx, agent)
	}
	if err != nil {
		return hubapi.Cancelled{}, refused(agent, err)
	}
	return hubapi.Cancelled{TaskID: answer.TaskID, Status: answer.Status, Message: answer.Message}, nil
}

// AnswerTask implements hub.Door.
func (d *Service) AnswerTask(ctx context.Context, a hubapi.Answer) (hubapi.Task, error) {
	if err := a.Check(); err != nil {
		return hubapi.Task{}, apierr.Wrap(err, apierr.InvalidMessageFormat, "%s", err)
	}
	t, agent, client, err := d.reach(ctx, a.TaskRef)
	if err != nil {
		return hubapi.Task{}, err
	}
	now, err := client.Answer(ctx, t.TaskID, a.Answer)
	if registry.Unreachable(err) {
		return hubapi.Task{}, d.offline(ctx, agent, err)
	}
	if err != nil {
		return hubapi.Task{}, refused(agent, err)
	}
	return told(merge(t, now, d.registry.Now()), true), nil
}

// toCancel finds the task that a cancel is for: by its id or, where its assignment was not answered, by the key of that.
// A key without a task is noted, so that an assignment that is still on its way begins none.
func (d *Service) toCancel(ctx context.Context, r hubapi.TaskRef) (store.Task, error) {
	if r.TaskID != "" || r.Key == "" {
		return d.task(ctx, r)
	}
	return d.store.WithdrawTask(ctx, store.Task{
		Ref: refOf(r.Tenant, r.AgentID, r.Key), Tenant: r.Tenant, AgentID: r.AgentID, Status: remoteagent.Cancelled,
		EndedAt: d.registry.Now().UTC().Truncate(time.Millisecond),
	})
}

func pending(agent store.Agent, t store.Task) hubapi.Cancelled {
	return hubapi.Cancelled{
		TaskID: t.TaskID, Status: t.Status, Pending: true,
		Message: fmt.Sprintf("Agent [%s] does not answer. The task is cancelled as soon as it does.", agent.ID),
	}
}

func late(taskID string, s remoteagent.Status) hubapi.Cancelled {
	return hubapi.Cancelled{TaskID: taskID, Status: s, Message: "Task already " + string(s), Late: true}
}

// ListAgents implements hub.Door.
func (d *Service) ListAgents(ctx context.Context, q hubapi.AgentsQuery) (hubapi.AgentList, error) {
	agents, err := d.registry.List(ctx, q.Tenant)
	if err != nil {
		return hubapi.AgentList{}, err
	}
	costs, err := d.costs(ctx, q.Tenant)
	if err != nil {
		return hubapi.AgentList{}, err
	}
	list := hubapi.AgentList{Agents: make([]hubapi.Agent, len(agents)), TotalCostUSD: total(costs)}
	var group errgroup.Group
	group.SetLimit(asked)
	for i, a := range agents {
		list.Agents[i] = Public(a, costs[a.ID])
		if q.Live && a.Online {
			group.Go(func() error {
				d.ask(ctx, a, &list.Agents[i])
				return nil
			})
		}
	}
	return list, group.Wait()
}

// ask adds what the agent says of itself; one that does not answer says nothing.
func (d *Service) ask(ctx context.Context, a store.Agent, into *hubapi.Agent) {
	ctx, cancel := context.WithTimeout(ctx, liveWait)
	defer cancel()
	var info remoteagent.Info
	client, err := d.registry.Client(a)
	if err == nil {
		info, err = client.Info(ctx)
	}
	if err != nil {
		d.log.InfoContext(ctx, "an agent does not report its activity", telemetry.LogAgent, a.ID, "error", err)
		return
	}
	into.Status = string(info.Status)
	if info.CurrentTask != nil {
		into.CurrentTask = info.CurrentTask.TaskID
		if info.CurrentTask.LastActivity != "" {
			into.CurrentTask += ", " + info.CurrentTask.LastActivity
		}
	}
}

// Public returns the data of an agent that all members of its tenant may read.
func Public(a store.Agent, costUSD float64) hubapi.Agent {
	return hubapi.Agent{
		ID: a.ID, Name: a.Name, URL: a.URL, Capabilities: a.Capabilities, DefaultCwd: a.DefaultCwd, DefaultModel: a.DefaultModel,
		BudgetUSD: a.BudgetUSD, IsOnline: a.Online, LastHeartbeat: a.LastHeartbeat, CreatedAt: a.CreatedAt, CostUSD: event.RoundUSD(costUSD),
		DefaultPermissionMode: a.PermissionMode, DefaultAllowedTools: a.AllowedTools, DefaultSystemPrompt: a.SystemPrompt,
	}
}

// Connect returns the address and key of an agent.
func (d *Service) Connect(ctx context.Context, r hubapi.AgentRef) (hubapi.Connection, error) {
	a, err := d.registry.Get(ctx, r.Tenant, r.AgentID)
	if err != nil {
		return hubapi.Connection{}, err
	}
	key, err := d.registry.Key(a)
	return hubapi.Connection{URL: a.URL, Key: key, Name: a.Name, Online: a.Online, DefaultModel: a.DefaultModel}, err
}

// Follow returns what a task did from q.After on, as soon as there is something.
func (d *Service) Follow(ctx context.Context, q hubapi.FollowQuery) (hubapi.Progress, error) {
	t, err := d.task(ctx, q.TaskRef)
	if err != nil {
		return hubapi.Progress{}, err
	}
	if w := d.find(t.Ref); w != nil {
		return w.follow(ctx, q.After), nil
	}
	p := hubapi.Progress{Next: q.After, Task: told(t, d.online(ctx, t))}
	if !t.EndedAt.IsZero() {
		p.Lines, p.Next = []string{hubapi.Done(p.Task)}, q.After+1
	}
	return p, nil
}

// Completed takes up that an agent says that a task has ended. What came of it is asked of the agent, whose word alone
// is not enough for a task that is not its own.
func (d *Service) Completed(ctx context.Context, agent store.Agent, c remoteagent.Completion) error {
	t, err := d.task(ctx, hubapi.TaskRef{Tenant: agent.Tenant, AgentID: agent.ID, TaskID: c.TaskID})
	if err != nil {
		return err
	}
	if w := d.find(t.Ref); w != nil {
		w.poll()
	}
	return nil
}

func (d *Service) task(ctx context.Context, r hubapi.TaskRef) (store.Task, error) {
	t, err := d.store.Task(ctx, r)
	if errors.Is(err, store.ErrNotFound) {
		return t, apierr.New(apierr.RequestNotFound, "agent %.64q has no task %.64q; assign_task gave the task's id", r.AgentID, r.TaskID)
	}
	return t, err
}

func (d *Service) online(ctx context.Context, t store.Task) bool {
	a, err := d.registry.Get(ctx, t.Tenant, t.AgentID)
	return err == nil && a.Online
}

// offline notes that an agent cannot be reached, and says so.
func (d *Service) offline(ctx context.Context, a store.Agent, cause error) error {
	if err := d.registry.Lost(ctx, a); err != nil {
		return err
	}
	return apierr.Wrap(cause, apierr.Unavailable,
		"agent %s is offline: it does not answer at %s; try again when list_agents shows it online", a.ID, a.URL)
}

func told(t store.Task, online bool) hubapi.Task {
	return hubapi.Task{
		TaskID: t.TaskID, SessionID: t.SessionID, AgentID: t.AgentID, AgentName: t.AgentName, AgentOnline: online, Task: t.Title,
		Status: t.Status, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, CompletedAt: t.EndedAt, TurnsCompleted: t.Turns,
		CostUSD: t.CostUSD, LastActivity: t.Activity, Result: t.Result, Error: t.Error, StopReason: t.Stop,
		FilesModified: t.Files, Denials: t.Denials, Actions: t.Actions, Notice: t.Notice,
	}
}

// merge is a task with what its agent says of it, at a time of the broker's clock.
func merge(t store.Task, now remoteagent.Task, at time.Time) store.Task {
	t.TaskID, t.Status, t.Turns, t.CostUSD = now.TaskID, now.Status, now.TurnsCompleted, now.CostUSD
	t.Result, t.Error, t.Stop, t.Files, t.Denials = now.Result, now.Error, now.StopReason, now.FilesModified, now.Denials
	t.Actions, t.Notice = now.Actions, ""
	if now.SessionID != "" {
		t.SessionID = now.SessionID
	}
	if now.LastActivity != "" {
		t.Activity = now.LastActivity
	}
	t.UpdatedAt = at.UTC()
	return t
}
