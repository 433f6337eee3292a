package agentserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/services/agent-server/internal/hostinfo"
)

const (
	// checkEvery is how long an answer of the backend about itself counts.
	checkEvery = 10 * time.Second
	// checkTime bounds the question.
	checkTime = 5 * time.Second
	// probeTime bounds a question to the provider of the model.
	probeTime = 10 * time.Second
	// minDiskFree is what a task needs at least, in gigabytes.
	minDiskFree = 0.1

	registeredAt = "registered_at"
)

// agent reports the description and the condition of the agent.
type agent struct {
	server     *Server
	started    time.Time
	registered time.Time
	host       remoteagent.Machine

	mu      sync.Mutex
	checked time.Time
	trouble error // of the backend
	probed  error // of its provider
}

// newAgent remembers when the agent was there for the first time.
func newAgent(ctx context.Context, s *Server) (*agent, error) {
	a := &agent{server: s, started: time.Now(), host: hostinfo.Describe()}
	text, err := s.store.Fact(ctx, registeredAt)
	if err != nil {
		return nil, err
	}
	a.registered, err = time.Parse(time.RFC3339, text)
	if err != nil { // it is new
		a.registered = a.started.UTC().Truncate(time.Second)
		return a, s.store.PutFact(ctx, registeredAt, a.registered.Format(time.RFC3339))
	}
	return a, nil
}

// Info implements api.Agent.
func (a *agent) Info(ctx context.Context) (remoteagent.Info, error) {
	s := a.server.settings
	current, waiting, err := a.server.scheduler.Current(ctx)
	info := remoteagent.Info{
		AgentID: s.ID, Name: s.Name, Capabilities: s.Capabilities, CurrentTask: current, QueuedTasks: waiting, Machine: a.host,
		SDK: remoteagent.SDK{Version: service.Version(), Model: s.Agent.Model, Backend: s.BackendName}, RegisteredAt: a.registered,
		PermissionMode: s.Permissions.Mode(""), MaxPermissionMode: s.Permissions.Max,
	}
	if a.server.hub != nil {
		info.LastHeartbeat = a.server.hub.LastHeartbeat()
	}
	health := a.Health(ctx)
	info.Status, info.Error = status(health, current), health.Error
	return info, err
}

func status(health remoteagent.Health, current *remoteagent.Task) remoteagent.Condition {
	switch {
	case !health.Healthy:
		return remoteagent.Unhealthy
	case current != nil:
		return remoteagent.Busy
	default:
		return remoteagent.Idle
	}
}

// condition is what heartbeats say.
func (a *agent) condition(ctx context.Context) (remoteagent.Condition, *remoteagent.Task) {
	current, _, err := a.server.scheduler.Current(ctx)
	if err != nil {
		return remoteagent.Unhealthy, nil
	}
	return status(a.Health(ctx), current), current
}

// Health implements api.Agent.
func (a *agent) Health(ctx context.Context) remoteagent.Health {
	health := remoteagent.Health{Healthy: true, APIKeyValid: true, Uptime: int64(time.Since(a.started).Seconds())}
	wrong := func(err error) {
		if health.Healthy {
			health.Healthy, health.Error = false, err.Error()
		}
	}
	if err := a.available(ctx); err != nil {
		health.APIKeyValid = false
		wrong(err)
	}
	if err := a.reachable(); err != nil {
		health.APIKeyValid = health.APIKeyValid && !errors.Is(err, backend.ErrKeyRefused)
		wrong(err)
	}
	if err := a.server.store.Ready(ctx); err != nil {
		wrong(err)
	}
	free, err := hostinfo.DiskFree(a.server.settings.DataDir)
	health.DiskFreeGB = free
	if err == nil && free < minDiskFree {
		wrong(errDiskFull)
	}
	return health
}

// available asks the backend whether it can work, now and then.
func (a *agent) available(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.checked) < checkEvery {
		return a.trouble
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
	defer cancel()
	a.trouble, a.checked = backend.Available(ctx, a.server.settings.Backend), time.Now()
	return a.trouble
}

// watch asks the provider of the model whether it would answer, until ctx is done. Health has the newest answer: it waits for no
// provider.
func (a *agent) watch(ctx context.Context) error {
	tick := time.NewTicker(a.server.settings.Probe)
	defer tick.Stop()
	for {
		err := a.probe(ctx)
		if ctx.Err() != nil {
			return nil
		}
		a.mu.Lock()
		a.probed = err
		a.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *agent) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return backend.Probe(ctx, a.server.settings.Backend)
}

func (a *agent) reachable() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.probed
}
