// Package registry manages the remote agents: it registers and checks them, keeps their keys, detects when they go
// offline and come back, and returns clients for them (TARS hub protocol, Agent Registry).
//
// An agent is online after each heartbeat and each response to the hub. After Options.OfflineAfter without either it is
// offline, and at once if a call to it fails to connect.
package registry

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/keyseal"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

// Publisher publishes the public data of an agent. It is implemented by *bus.Bus.
type Publisher interface {
	PutAgent(ctx context.Context, a bus.AgentRecord) error
}

// Options are what a registry works with. Every member is needed.
type Options struct {
	Store        *store.Store
	Vault        *keyseal.Vault
	Publisher    Publisher
	HTTP         *http.Client // reaches agents
	Reserved     func(id string) bool
	OfflineAfter time.Duration
	Overlap      time.Duration    // for which an old key stays good
	Poll         time.Duration    // between two looks at all agents
	Now          func() time.Time // by a clock that every process that uses the store shares
	Log          *slog.Logger
}

// Registry is safe for concurrent use.
type Registry struct {
	Options

	mu   sync.Mutex
	back map[string]chan struct{} // by agent: closed at its next sign of life
}

// New returns a registry.
func New(o Options) *Registry {
	return &Registry{Options: o, back: map[string]chan struct{}{}}
}

// Get returns an agent of a tenant, or fails with apierr.AgentNotFound.
func (r *Registry) Get(ctx context.Context, tenant, id string) (store.Agent, error) {
	a, err := r.Store.Agent(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && a.Tenant != tenant {
		return store.Agent{}, apierr.New(apierr.AgentNotFound, "there is no remote agent %.64q; list_agents and GET /api/agents list them", id)
	}
	return a, err
}

// List returns the agents of a tenant by id.
func (r *Registry) List(ctx context.Context, tenant string) ([]store.Agent, error) {
	all, err := r.Store.Agents(ctx)
	if err != nil {
		return nil, err
	}
	var own []store.Agent
	for _, a := range all {
		if a.Tenant == tenant {
			own = append(own, a)
		}
	}
	return own, nil
}

// Client returns a client that reaches an agent with its key.
func (r *Registry) Client(a store.Agent) (*remoteagent.Client, error) {
	key, err := r.Key(a)
	if err != nil {
		return nil, err
	}
	return r.client(a.URL, key), nil
}

// Key returns the key of an agent.
func (r *Registry) Key(a store.Agent) (string, error) { return r.Vault.Open(a.ID, a.SealedKey) }

func (r *Registry) client(url, key string) *remoteagent.Client {
	c := remoteagent.NewClient(url, key)
	c.HTTP = r.HTTP
	return c
}

// Authenticate returns the agent that speaks with key under an id. It fails with apierr.AuthFailed and does not say
// whether there is such an agent. The key before is good while it overlaps.
func (r *Registry) Authenticate(ctx context.Context, id, key string) (store.Agent, error) {
	refused := apierr.New(apierr.AuthFailed, "this is not the key of agent %.64q; send its key as a bearer, or register the agent again", id)
	a, err := r.Store.Agent(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return store.Agent{}, refused
	}
	if err != nil {
		return store.Agent{}, err
	}
	if r.opens(a, a.SealedKey, key) {
		return a, nil
	}
	if a.SealedOldKey != "" && r.Now().Before(a.OldKeyUntil) && r.opens(a, a.SealedOldKey, key) {
		return a, nil
	}
	return store.Agent{}, refused
}

func (r *Registry) opens(a store.Agent, sealed, key string) bool {
	want, err := r.Vault.Open(a.ID, sealed)
	if err != nil {
		r.Log.Error("a sealed key cannot be opened", telemetry.LogAgent, a.ID, "error", err)
		return false
	}
	return subtle.ConstantTimeCompare([]byte(want), []byte(key)) == 1
}

// Alive notes a sign of life, and wakes those who wait for one.
func (r *Registry) Alive(ctx context.Context, a store.Agent) error {
	if err := r.Store.Beat(ctx, a.ID, r.Now()); err != nil {
		return err
	}
	r.wake(a.ID)
	if a.Online {
		return nil
	}
	r.Log.InfoContext(ctx, "an agent is online", telemetry.LogAgent, a.ID)
	a.Online = true
	return r.publish(ctx, a)
}

// Lost notes that an agent cannot be reached.
func (r *Registry) Lost(ctx context.Context, a store.Agent) error {
	if !a.Online {
		return nil
	}
	if err := r.Store.Offline(ctx, a.ID); err != nil {
		return err
	}
	r.Log.WarnContext(ctx, "an agent is offline", telemetry.LogAgent, a.ID, "lastHeartbeat", a.LastHeartbeat)
	a.Online = false
	return r.publish(ctx, a)
}

// Await returns a channel that is closed at the agent's next sign of life.
func (r *Registry) Await(id string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.back[id] == nil {
		r.back[id] = make(chan struct{})
	}
	return r.back[id]
}

func (r *Registry) wake(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.back[id]; c != nil {
		close(c)
		delete(r.back, id)
	}
}

func (r *Registry) publish(ctx context.Context, a store.Agent) error {
	return r.Publisher.PutAgent(ctx, bus.AgentRecord{
		ID: a.ID, Tenant: a.Tenant, Name: a.Name, Capabilities: a.Capabilities, Model: a.DefaultModel, Online: a.Online,
	})
}

// Unreachable reports whether an error of a client says that no agent answered at all.
func Unreachable(err error) bool {
	_, refused := errors.AsType[*remoteagent.Refusal](err)
	return err != nil && !refused && !errors.Is(err, context.Canceled)
}
