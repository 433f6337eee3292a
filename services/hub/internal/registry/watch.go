package registry

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub/internal/store"
	"golang.org/x/sync/errgroup"
)

// minAsk is the least time that an agent gets for an answer.
const minAsk = time.Second

// polls is how many agents are asked at one time.
const polls = 16

// Run checks the agents that have sent nothing for a heartbeat interval, and marks unreachable ones as offline, until
// ctx is done. First it publishes all agents of the registry.
func (r *Registry) Run(ctx context.Context) error {
	r.announce(ctx)
	tick := time.NewTicker(r.every())
	defer tick.Stop()
	for {
		if err := r.check(ctx); err != nil && ctx.Err() == nil {
			r.Log.ErrorContext(ctx, "could not look after the agents", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// every is the time between two looks at all agents: often enough to notice near OfflineAfter that one is gone.
func (r *Registry) every() time.Duration { return min(r.Poll, r.OfflineAfter/parallelChecks) }

// parallelChecks is how often at least the agents are looked at within OfflineAfter.
const parallelChecks = 8

func (r *Registry) announce(ctx context.Context) {
	all, err := r.Store.Agents(ctx)
	for _, a := range all {
		err = errors.Join(err, r.publish(ctx, a))
	}
	if err != nil && ctx.Err() == nil {
		r.Log.ErrorContext(ctx, "could not publish the agents", "error", err)
	}
}

func (r *Registry) check(ctx context.Context) error {
	all, err := r.Store.Agents(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(polls)
	for _, a := range all {
		if r.Now().Sub(a.LastHeartbeat) > min(remoteagent.HeartbeatEvery, r.OfflineAfter/4)+r.every() || !a.Online {
			group.Go(func() error { return r.ask(ctx, a) })
		}
	}
	return group.Wait()
}

// ask gives an agent the chance to show that it is there.
func (r *Registry) ask(ctx context.Context, a store.Agent) error {
	client, err := r.Client(a)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, min(remoteagent.AskTimeout, max(r.OfflineAfter/parallelChecks, minAsk)))
	defer cancel()
	if _, err = client.Health(asking); err == nil {
		return gone(r.Alive(ctx, a))
	}
	if ctx.Err() != nil || r.Now().Sub(a.LastHeartbeat) < r.OfflineAfter {
		return nil // it may answer the next time
	}
	return gone(r.Lost(ctx, a))
}

// gone forgives that an agent was removed meanwhile.
func gone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// StoreHeartbeat stores an agent's heartbeat.
func (r *Registry) StoreHeartbeat(ctx context.Context, a store.Agent, beat remoteagent.Heartbeat) error {
	if beat.Stopping {
		return gone(r.Lost(ctx, a))
	}
	return gone(r.Alive(ctx, a))
}
