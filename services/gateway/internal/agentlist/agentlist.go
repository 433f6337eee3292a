// Package agentlist keeps in mind which agents on other machines there are (S3), as the hub tells it.
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

// Watcher tells of every remote agent, and of every change. A *bus.Bus is one.
type Watcher interface {
	WatchAgents(ctx context.Context, changed func(bus.AgentRecord), ready func()) error
}

// Agents is safe for concurrent use. The zero value knows none.
type Agents struct {
	mu   sync.RWMutex
	byID map[string]bus.AgentRecord
}

// Put takes up what an agent is now.
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

// Watch keeps the agents up to date until ctx is done.
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
