package agentrunner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/remote"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/retry"
	"github.com/agentbus/agentbus/pkg/transcript"
)

// Limits of a request on a remote agent (TARS hub protocol, assign_task), and of its time.
const (
	remoteTurns   = hubapi.DefaultMaxTurns
	remoteCostUSD = hubapi.DefaultMaxBudgetUSD
	remoteTime    = time.Hour
)

const (
	hubTimeout = 30 * time.Second // time for a hub to restart
	hubPause   = time.Second
	// cancelTimeout is how long the hub may take for a cancel: it asks the agent.
	cancelTimeout = 20 * time.Second
)

// remotes has the runner's clients for remote agents. The zero value disables them.
type remotes struct {
	hub  remote.Hub
	http *http.Client
}

func newRemotes(d Deps) (remotes, error) {
	if d.Hub == nil {
		return remotes{}, nil
	}
	client, err := hubapi.Reach(d.Config.Hub.Allow, d.Config.Hub.PlainHTTP)
	return remotes{d.Hub, client}, err
}

// agentOf returns the agent of a request: a configured one, or a remote agent of the hub.
func (r *Runner) agentOf(ctx context.Context, a record.Accepted) (agent, error) {
	own, configured := r.agents[a.AgentID]
	switch {
	case configured && own.remote.Agent == "":
		return own, nil
	case r.remotes.hub == nil:
		return agent{}, apierr.New(apierr.AgentNotFound, "agent %.64q no longer exists", a.AgentID)
	case configured:
		own.backend = r.remoteBackend(a.Tenant, own.remote)
		return own, nil
	}
	conn, err := r.connect(ctx, hubapi.AgentRef{Tenant: a.Tenant, AgentID: a.AgentID})
	if err != nil {
		return agent{}, err
	}
	return agent{
		backend: r.remoteBackend(a.Tenant, config.Remote{}),
		Agent: loop.Agent{
			Name: a.AgentID, Model: conn.DefaultModel, Turns: remoteTurns, CostUSD: remoteCostUSD, Time: remoteTime,
			ActionTTL: r.actionTTL(),
		},
	}, nil
}

// remoteBackend returns the backend of the remote agents of a tenant, or of the one that c names.
func (r *Runner) remoteBackend(tenant string, c config.Remote) backend.Backend {
	b := remote.New(remote.Options{
		Hub: r.remotes.hub, HTTP: r.remotes.http, Tenant: tenant, Ends: loop.Ends, Agent: c.Agent,
		Defaults: remote.Settings{
			PermissionMode: remoteagent.PermissionMode(c.PermissionMode), AllowedTools: c.AllowedTools, Cwd: c.Cwd,
			Approvals: remoteagent.Approvals(c.Approvals),
		},
	})
	return r.backpressure.wrap(r.meters.Backend(b, config.BackendRemote))
}

// remoteID returns the id at the hub of a request's agent; false for an agent that runs here.
func (r *Runner) remoteID(agentID string) (string, bool) {
	own, configured := r.agents[agentID]
	return cmp.Or(own.remote.Agent, agentID), r.remotes.hub != nil && (!configured || own.remote.Agent != "")
}

// connect asks the hub for the connection to an agent. It waits up to hubTimeout for a hub that does not answer.
func (r *Runner) connect(ctx context.Context, ref hubapi.AgentRef) (conn hubapi.Connection, err error) {
	waiting, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	err = retry.Policy{
		First: hubPause,
		Final: func(err error) bool { return !errors.Is(err, hubapi.ErrSilent) },
	}.Do(waiting, func(context.Context) error { // ctx, so that the last call is not cut short
		conn, err = r.remotes.hub.Connect(ctx, ref)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return conn, fmt.Errorf("ask the hub for agent %s: %w", ref.AgentID, context.Cause(ctx))
	}
	return conn, err
}

// leaveTask has the hub cancel the task of a remote agent that a request left running: after an abort, at a limit, or
// because it had no runner. The hub stores the cancellation in its database and carries it out as soon as the agent
// answers. While the hub does not answer, the error keeps the request's pointer in the queue, so that any runner
// retries.
func (r *Runner) leaveTask(ctx context.Context, a record.Accepted) error {
	agentID, remotely := r.remoteID(a.AgentID)
	if !remotely {
		return nil
	}
	c := &claim{runner: r, log: bus.LogID{Tenant: a.Tenant, RequestID: a.RequestID}, accepted: a}
	events, err := c.logOf(ctx, a.RequestID)
	if err != nil {
		return err
	}
	state := new(transcript.State)
	state.Fold(events...)
	task, key := remote.Task(state.Session(), a.RequestID)
	if task == "" && key == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	_, err = r.remotes.hub.CancelTask(ctx, hubapi.TaskRef{Tenant: a.Tenant, AgentID: agentID, TaskID: task, Key: key})
	switch apierr.CodeOf(err) {
	case apierr.Unavailable, apierr.Internal:
		return fmt.Errorf("cancel task %s of agent %s, which request %s has left: %w", cmp.Or(task, key), agentID, a.RequestID, err)
	default: // done, or the hub no longer has the agent or the task
		return nil
	}
}
