// Package agentlist holds the remote agents that the hub publishes.
package agentlist

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
)

// Watcher reports every remote agent, and every change. A *bus.Bus is one.
type Watcher interface {
	WatchAgents(ctx context.Context, changed func(bus.AgentRecord), ready func()) error
}

// Agents is the set of remote agents. It is safe for concurrent use. Its zero value is empty.
type Agents struct {
	mu   sync.RWMutex
	byID map[string]bus.AgentRecord
}

// Put stores the current state of an agent.
func (a *Agents) Put(r bus.AgentRecord) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byID == nil {
		a.byID = map[string]bus.AgentRecord{}
	}
	if r.Removed {
		delete(a.byID, r.ID)
		return
	}
	a.byID[r.ID] = r
}

// Find returns an agent of a tenant.
func (a *Agents) Find(tenant, id string) (bus.AgentRecord, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	r, ok := a.byID[id]
	return r, ok && r.Tenant == tenant
}

// List returns the agents of a tenant by id.
func (a *Agents) List(tenant string) []bus.AgentRecord {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var own []bus.AgentRecord
	for _, r := range a.byID {
		if r.Tenant == tenant {
			own = append(own, r)
		}
	}
	slices.SortFunc(own, func(x, y bus.AgentRecord) int { return cmp.Compare(x.ID, y.ID) })
	return own
}

// Watch updates the set until ctx is done.
func (a *Agents) Watch(ctx context.Context, w Watcher, log *slog.Logger) {
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for ctx.Err() == nil {
		err := w.WatchAgents(ctx, a.Put, func() {})
		if ctx.Err() == nil {
			log.WarnContext(ctx, "remote agents are not watched; trying again", "error", err)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
		}
	}
}
