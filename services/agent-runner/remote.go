package agentrunner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/backend/remote"
	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/hub"
	"github.com/agentbus/agentbus/pkg/loop"
)

// What a request may use that runs on a remote agent (S3, assign_task), and how long it may take.
const (
	remoteTurns   = hub.DefaultMaxTurns
	remoteCostUSD = hub.DefaultMaxBudgetUSD
	remoteTime    = time.Hour
)

const (
	hubWait  = 30 * time.Second // for a hub that is being started again
	hubPause = time.Second
)

// remotes is what a runner needs for agents on other machines. The zero value says that there are none.
type remotes struct {
	hub  remote.Hub
	http *http.Client
}

func newRemotes(d Deps) (remotes, error) {
	if d.Hub == nil {
		return remotes{}, nil
	}
	client, err := hub.Reach(d.Config.Hub.Allow, d.Config.Hub.PlainHTTP)
	return remotes{d.Hub, client}, err
}

// agentOf is the agent of a request: a configured one, or one that the hub knows.
func (r *Runner) agentOf(ctx context.Context, a command.Accepted) (agent, error) {
	if own, ok := r.agents[a.AgentID]; ok {
		return own, nil
	}
	if r.remotes.hub == nil {
		return agent{}, fault.New(fault.AgentNotFound, "there is no agent %.64q any more", a.AgentID)
	}
	conn, err := r.connect(ctx, hub.AgentRef{Tenant: a.Tenant, AgentID: a.AgentID})
	if err != nil {
		return agent{}, err
	}
	b := remote.New(remote.Options{Hub: r.remotes.hub, HTTP: r.remotes.http, Tenant: a.Tenant, Ends: loop.Ends})
	return agent{
		backend: r.room.within(r.meters.Backend(b, providerRemote)),
		Agent: loop.Agent{
			Name: a.AgentID, Model: conn.DefaultModel, Turns: remoteTurns, CostUSD: remoteCostUSD, Time: remoteTime,
			ActionTTL: r.actionTTL(),
		},
	}, nil
}

// providerRemote is what is told of an agent on another machine where others tell their backend.
const providerRemote = "remote"

// connect asks the hub, and waits a while for one that does not answer.
func (r *Runner) connect(ctx context.Context, ref hub.AgentRef) (hub.Connection, error) {
	late := time.Now().Add(hubWait)
	for {
		conn, err := r.remotes.hub.Connect(ctx, ref)
		if !errors.Is(err, hub.ErrSilent) || time.Now().After(late) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return conn, fmt.Errorf("ask the hub for agent %s: %w", ref.AgentID, context.Cause(ctx))
		case <-time.After(hubPause):
		}
	}
}
