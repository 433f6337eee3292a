package task

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/hub"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/spoke"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/agentbus/agentbus/services/orchestrator/internal/registry"
	"github.com/agentbus/agentbus/services/orchestrator/internal/store"
)

// Bounds of an assignment.
const (
	maxTask  = 256 << 10 // bytes
	maxText  = 4096
	maxTurns = 10_000
)

// AssignTask implements hub.Door.
func (d *Desk) AssignTask(ctx context.Context, a hub.Assignment) (hub.Task, error) {
	if err := check(a); err != nil {
		return hub.Task{}, err
	}
	agent, err := d.registry.Get(ctx, a.Tenant, a.AgentID)
	if err != nil {
		return hub.Task{}, err
	}
	t := store.Task{
		Ref: id.New("asg"), Tenant: a.Tenant, AgentID: agent.ID, AgentName: agent.Name, Title: hub.Title(a.Task),
		Status: spoke.Running, CreatedAt: d.registry.Now().UTC().Truncate(time.Millisecond),
	}
	if a.Key != "" && !weaken.Without(weaken.OneTask) {
		t.Ref = refOf(a.Tenant, agent.ID, a.Key)
	}
	room, err := d.room(ctx, agent)
	if err != nil {
		return hub.Task{}, err
	}
	if d.full() {
		return hub.Task{}, fault.New(fault.Unavailable, "the hub watches %d tasks already; try again later", maxOpen)
	}
	if t, err = d.store.AddTask(ctx, t); err != nil {
		return hub.Task{}, err
	}
	if t.TaskID != "" {
		return told(t, agent.Online), nil
	}
	if !t.EndedAt.IsZero() {
		return hub.Task{}, fault.New(fault.AgentError, "the task was cancelled before agent %s had it", agent.ID)
	}
	if w := d.find(t.Ref); w != nil {
		w.look()
		return hub.Task{}, notYet(agent)
	}
	t, err = d.create(ctx, agent, t, spoke.Assignment{
		Prompt: a.Task, SystemPrompt: a.SystemPrompt, Cwd: cmp.Or(a.Cwd, agent.DefaultCwd), Model: agent.DefaultModel,
		MaxTurns: cmp.Or(a.MaxTurns, hub.DefaultMaxTurns), SessionID: a.ResumeSession,
		MaxBudgetUSD: min(cmp.Or(a.MaxBudgetUSD, hub.DefaultMaxBudgetUSD), room),
	})
	return told(t, true), err
}

// refOf names the task of an assignment by its key.
func refOf(tenant, agentID, key string) string { return id.Derive("asg", tenant, agentID, key) }

// lookWait is how long the watch of a task may take to find out whether its agent has it.
const lookWait = time.Second

// notYet answers for a task of which only its watch can find out whether the agent has it.
func notYet(agent store.Agent) error {
	f := fault.New(fault.Unavailable, "it is not known yet whether agent %s has taken this task; try again", agent.ID)
	f.RetryAfter = lookWait
	return f
}

// create has the agent take the task. When nobody knows whether it did, the task stays open and its watch finds out. Who
// asks may leave meanwhile: what is begun is noted in any case.
func (d *Desk) create(ctx context.Context, agent store.Agent, t store.Task, a spoke.Assignment) (store.Task, error) {
	ctx = context.WithoutCancel(ctx)
	if !agent.Online {
		return t, errors.Join(d.store.DropTask(ctx, t.Ref), fault.New(fault.Unavailable,
			"agent %s is offline, and gets no tasks; list_agents shows who is online", agent.ID))
	}
	client, err := d.registry.Client(agent)
	if err != nil {
		return t, err
	}
	now, err := client.Create(ctx, a, t.Ref)
	if _, isRefusal := errors.AsType[*spoke.Refusal](err); isRefusal {
		return t, errors.Join(d.store.DropTask(ctx, t.Ref), refused(agent, err))
	}
	if registry.Unreachable(err) {
		return t, d.uncertain(ctx, agent, t, err)
	}
	if err != nil {
		d.begin(ctx, t)
		return t, err
	}
	notFinished := now
	notFinished.Status = spoke.Running // the watch ends it, when it has ended already
	taken := merge(t, notFinished, d.registry.Now())
	if now.Status == spoke.Queued {
		taken.Status = spoke.Queued
	}
	if _, err = d.store.PutTask(ctx, taken); err != nil {
		d.begin(ctx, t) // the row lacks the task's id: the watch asks the agent for it and writes it
		return t, err
	}
	d.begin(ctx, taken)
	return taken, nil
}

// uncertain tells a task that the agent never heard of from one of which nobody knows.
func (d *Desk) uncertain(ctx context.Context, agent store.Agent, t store.Task, cause error) error {
	if dial, ok := errors.AsType[*net.OpError](cause); ok && dial.Op == "dial" {
		return errors.Join(d.store.DropTask(ctx, t.Ref), d.offline(ctx, agent, cause))
	}
	d.begin(ctx, t)
	return d.offline(ctx, agent, cause)
}

func check(a hub.Assignment) error {
	switch {
	case strings.TrimSpace(a.Task) == "":
		return fault.New(fault.InvalidMessageFormat, "task is empty; say what the agent should do")
	case len(a.Task) > maxTask || len(a.SystemPrompt) > maxTask:
		return fault.New(fault.InvalidMessageFormat,
			"task is longer than %d bytes; put what is long into files that the agent can read", maxTask)
	case len(a.Cwd) > maxText || len(a.ResumeSession) > maxText || len(a.Key) > maxText:
		return fault.New(fault.InvalidMessageFormat, "cwd and resume_session have at most %d characters", maxText)
	case a.MaxTurns < 0 || a.MaxTurns > maxTurns:
		return fault.New(fault.InvalidMessageFormat, "max_turns must be a number from 1 to %d", maxTurns)
	case !(a.MaxBudgetUSD >= 0 && a.MaxBudgetUSD < 1e9):
		return fault.New(fault.InvalidMessageFormat, "max_budget_usd must be an amount in US dollars above 0")
	}
	return nil
}

// refused says for the one who asked why an agent does not do it.
func refused(agent store.Agent, err error) error {
	refusal, ok := errors.AsType[*spoke.Refusal](err)
	if !ok {
		return err
	}
	say := func(code fault.Code, format string, args ...any) error { return fault.Wrap(err, code, format, args...) }
	switch {
	case refusal.HTTP == http.StatusUnauthorized || refusal.HTTP == http.StatusForbidden:
		return say(fault.AgentError, "agent %s does not take the hub's key any more; give the hub one of its AGENT_KEYS", agent.ID)
	case refusal.Code == spoke.AgentBusy && refusal.CurrentTask != nil:
		return say(fault.ThreadBusy, "agent %s is busy with task %s (%s); wait for it, or give the task to another agent",
			agent.ID, refusal.CurrentTaskID, cmp.Or(refusal.CurrentTask.LastActivity, "no activity yet"))
	case refusal.HTTP == http.StatusConflict || refusal.HTTP == http.StatusTooManyRequests:
		return say(fault.ThreadBusy, "agent %s: %s", agent.ID, refusal.Message)
	case refusal.HTTP == http.StatusNotFound || refusal.HTTP == http.StatusGone:
		return say(fault.RequestNotFound, "agent %s: %s", agent.ID, refusal.Message)
	case refusal.HTTP < http.StatusInternalServerError:
		return say(fault.InvalidMessageFormat, "agent %s: %s", agent.ID, refusal.Message)
	default:
		return say(fault.Unavailable, "agent %s: %s", agent.ID, refusal.Message)
	}
}
