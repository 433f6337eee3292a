package task

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/agentbus/agentbus/services/hub/internal/registry"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

// Bounds of an assignment.
const (
	maxTask  = 256 << 10 // bytes
	maxText  = 4096
	maxTurns = 10_000
	maxTools = 1000
)

// AssignTask implements hub.Door.
func (d *Service) AssignTask(ctx context.Context, a hubapi.Assignment) (hubapi.Task, error) {
	if err := check(a); err != nil {
		return hubapi.Task{}, err
	}
	agent, err := d.registry.Get(ctx, a.Tenant, a.AgentID)
	if err != nil {
		return hubapi.Task{}, err
	}
	digest, err := a.Digest()
	if err != nil {
		return hubapi.Task{}, err
	}
	t := store.Task{
		Ref: id.New("asg"), Digest: digest, Tenant: a.Tenant, AgentID: agent.ID, AgentName: agent.Name, Title: hubapi.Title(a.Task),
		Status: remoteagent.Running, CreatedAt: d.registry.Now().UTC().Truncate(time.Millisecond),
	}
	if a.Key != "" && !weaken.Without(weaken.OneTask) {
		t.Ref = refOf(a.Tenant, agent.ID, a.Key)
	}
	room, err := d.room(ctx, agent)
	if err != nil {
		return hubapi.Task{}, err
	}
	if d.full() {
		return hubapi.Task{}, apierr.New(apierr.Unavailable, "the hub watches %d tasks already; try again later", maxOpen)
	}
	if t, err = d.store.AddTask(ctx, t); err != nil {
		return hubapi.Task{}, err
	}
	if t.Digest != "" && t.Digest != digest {
		return hubapi.Task{}, apierr.New(apierr.IdempotencyMismatch,
			"this idempotency key has brought another task of agent %s; use a fresh key for a new one", agent.ID)
	}
	if t.TaskID != "" {
		return told(t, agent.Online), nil
	}
	if !t.EndedAt.IsZero() {
		return hubapi.Task{}, apierr.New(apierr.AgentError, "the task was cancelled before agent %s had it", agent.ID)
	}
	if w := d.find(t.Ref); w != nil {
		w.poll()
		return hubapi.Task{}, notYet(agent)
	}
	t, err = d.create(ctx, agent, t, forAgent(a, agent, room))
	return told(t, true), err
}

// forAgent fills what an assignment leaves open with the defaults of its agent. It may cost at most room.
func forAgent(a hubapi.Assignment, agent store.Agent, room float64) remoteagent.Assignment {
	tools := a.AllowedTools
	if tools == nil {
		tools = agent.AllowedTools
	}
	return remoteagent.Assignment{
		Prompt: a.Task, SystemPrompt: cmp.Or(a.SystemPrompt, agent.SystemPrompt), AllowedTools: tools,
		PermissionMode: cmp.Or(a.PermissionMode, agent.PermissionMode), Model: cmp.Or(a.Model, agent.DefaultModel),
		Cwd: cmp.Or(a.Cwd, agent.DefaultCwd), SessionID: a.ResumeSession, Approvals: a.Approvals,
		MaxTurns: cmp.Or(a.MaxTurns, hubapi.DefaultMaxTurns), MaxBudgetUSD: min(cmp.Or(a.MaxBudgetUSD, hubapi.DefaultMaxBudgetUSD), room),
	}
}

// refOf names the task of an assignment by its key.
func refOf(tenant, agentID, key string) string { return id.Derive("asg", tenant, agentID, key) }

// pollTimeout is how long the watch of a task may take to find out whether its agent has it.
const pollTimeout = time.Second

// notYet answers for a task of which only its watch can find out whether the agent has it.
func notYet(agent store.Agent) error {
	f := apierr.New(apierr.Unavailable, "it is not known yet whether agent %s has taken this task; try again", agent.ID)
	f.RetryAfter = pollTimeout
	return f
}

// create sends the task to the agent. If it is unknown whether the agent accepted it, the task stays open and its watch
// finds out. The caller may cancel meanwhile: a call that was begun is recorded in any case.
func (d *Service) create(ctx context.Context, agent store.Agent, t store.Task, a remoteagent.Assignment) (store.Task, error) {
	ctx = context.WithoutCancel(ctx)
	if !agent.Online {
		return t, errors.Join(d.store.DropTask(ctx, t.Ref), apierr.New(apierr.Unavailable,
			"agent %s is offline, and gets no tasks; list_agents shows who is online", agent.ID))
	}
	client, err := d.registry.Client(agent)
	if err != nil {
		return t, err
	}
	now, err := client.Create(ctx, a, t.Ref)
	if _, isRefusal := errors.AsType[*remoteagent.Refusal](err); isRefusal {
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
	notFinished.Status = remoteagent.Running // the watch ends it, when it has ended already
	taken := merge(t, notFinished, d.registry.Now())
	if now.Status == remoteagent.Queued {
		taken.Status = remoteagent.Queued
	}
	if _, err = d.store.PutTask(ctx, taken); err != nil {
		d.begin(ctx, t) // the row lacks the task's id: the watch asks the agent for it and writes it
		return t, err
	}
	d.begin(ctx, taken)
	return taken, nil
}

// uncertain distinguishes a task that did not reach the agent from one whose state is unknown.
func (d *Service) uncertain(ctx context.Context, agent store.Agent, t store.Task, cause error) error {
	if dial, ok := errors.AsType[*net.OpError](cause); ok && dial.Op == "dial" {
		return errors.Join(d.store.DropTask(ctx, t.Ref), d.offline(ctx, agent, cause))
	}
	d.begin(ctx, t)
	return d.offline(ctx, agent, cause)
}

func check(a hubapi.Assignment) error {
	switch {
	case strings.TrimSpace(a.Task) == "":
		return apierr.New(apierr.InvalidMessageFormat, "task is empty; say what the agent should do")
	case len(a.Task) > maxTask || len(a.SystemPrompt) > maxTask:
		return apierr.New(apierr.InvalidMessageFormat,
			"task is longer than %d bytes; put what is long into files that the agent can read", maxTask)
	case len(a.Cwd) > maxText || len(a.ResumeSession) > maxText || len(a.Key) > maxText:
		return apierr.New(apierr.InvalidMessageFormat, "cwd and resume_session have at most %d characters", maxText)
	case a.MaxTurns < 0 || a.MaxTurns > maxTurns:
		return apierr.New(apierr.InvalidMessageFormat, "max_turns must be a number from 1 to %d", maxTurns)
	case a.PermissionMode != "" && !slices.Contains(remoteagent.PermissionModes(), a.PermissionMode):
		return apierr.New(apierr.InvalidMessageFormat, "permission_mode %.40q is not one of %q", a.PermissionMode, remoteagent.PermissionModes())
	case len(a.Model) > config.MaxModel:
		return apierr.New(apierr.InvalidMessageFormat, "model has at most %d characters", config.MaxModel)
	case !a.Approvals.Known():
		return apierr.New(apierr.InvalidMessageFormat, "approvals %.40q is neither %q nor %q", a.Approvals, remoteagent.ApprovalsDeny, remoteagent.ApprovalsAsk)
	case len(a.AllowedTools) > maxTools:
		return apierr.New(apierr.InvalidMessageFormat, "allowed_tools has at most %d names", maxTools)
	case !(a.MaxBudgetUSD >= 0 && a.MaxBudgetUSD < 1e9):
		return apierr.New(apierr.InvalidMessageFormat, "max_budget_usd must be an amount in US dollars above 0")
	}
	return nil
}

// refused says for the one who asked why an agent does not do it.
func refused(agent store.Agent, err error) error {
	refusal, ok := errors.AsType[*remoteagent.Refusal](err)
	if !ok {
		return err
	}
	say := func(code apierr.Code, format string, args ...any) error {
		return apierr.Wrap(err, code, format, args...)
	}
	switch {
	case refusal.HTTP == http.StatusUnauthorized || refusal.HTTP == http.StatusForbidden:
		return say(apierr.AgentError, "agent %s does not take the hub's key any more; give the hub one of its AGENT_KEYS", agent.ID)
	case refusal.Code == remoteagent.AgentBusy && refusal.CurrentTask != nil:
		return say(apierr.ThreadBusy, "agent %s is busy with task %s (%s); wait for it, or give the task to another agent",
			agent.ID, refusal.CurrentTaskID, cmp.Or(refusal.CurrentTask.LastActivity, "no activity yet"))
	case refusal.Code == remoteagent.ActionResolved, refusal.Code == remoteagent.TaskFinished, refusal.Code == apierr.InvalidActionID:
		return say(apierr.InvalidActionID, "agent %s: %s", agent.ID, refusal.Message)
	case refusal.HTTP == http.StatusConflict || refusal.HTTP == http.StatusTooManyRequests:
		return say(apierr.ThreadBusy, "agent %s: %s", agent.ID, refusal.Message)
	case refusal.HTTP == http.StatusNotFound || refusal.HTTP == http.StatusGone:
		return say(apierr.RequestNotFound, "agent %s: %s", agent.ID, refusal.Message)
	case refusal.HTTP == http.StatusRequestEntityTooLarge:
		return say(apierr.MessageTooLarge, "agent %s: %s", agent.ID, refusal.Message)
	case refusal.HTTP < http.StatusInternalServerError:
		return say(apierr.InvalidMessageFormat, "agent %s: %s", agent.ID, refusal.Message)
	default:
		return say(apierr.Unavailable, "agent %s: %s", agent.ID, refusal.Message)
	}
}
