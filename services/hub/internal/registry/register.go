package registry

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

// TokenLife is how long a set-up token is good.
const TokenLife = 30 * time.Minute

// Bounds of what an agent says of itself.
const (
	maxText         = 1024
	maxCapabilities = 64
)

// Candidate is an agent to be registered. URL and Key are required; the agent supplies the other fields if they are
// missing.
type Candidate struct {
	ID           string   `json:"id"`
	URL          string   `json:"url"`
	Name         string   `json:"name"`
	APIKey       string   `json:"apiKey"`
	Capabilities []string `json:"capabilities"`
	DefaultCwd   string   `json:"defaultCwd"`
	DefaultModel string   `json:"defaultModel"`
	BudgetUSD    float64  `json:"budgetUsd"`

	DefaultPermissionMode remoteagent.PermissionMode `json:"defaultPermissionMode"`
	DefaultAllowedTools   []string                   `json:"defaultAllowedTools"`
	DefaultSystemPrompt   string                     `json:"defaultSystemPrompt"`
}

// Register checks that the agent is reachable and accepts the key, and stores it (TARS hub protocol, Registration
// Flow).
func (r *Registry) Register(ctx context.Context, tenant string, c Candidate) (store.Agent, error) {
	a, err := r.candidate(ctx, tenant, c)
	if err != nil {
		return store.Agent{}, err
	}
	return a, r.added(ctx, a, r.Store.AddAgent(ctx, a))
}

// RegisterByToken is Register for an agent that brings a set-up token itself. One that its tenant has already is
// registered anew.
func (r *Registry) RegisterByToken(ctx context.Context, in remoteagent.Registration) (store.Agent, error) {
	hash := digest(in.Token)
	tenant, err := r.Store.Token(ctx, hash, r.Now())
	if errors.Is(err, store.ErrNotFound) {
		return store.Agent{}, apierr.New(apierr.AuthFailed, "the set-up token is not good any more; make a new one with agentbus agents token")
	}
	if err != nil {
		return store.Agent{}, err
	}
	a, err := r.candidate(ctx, tenant, Candidate{ID: in.ID, URL: in.URL, Name: in.Name, APIKey: in.Key, Capabilities: in.Capabilities})
	if err != nil {
		return store.Agent{}, err
	}
	if err := r.Store.UseToken(ctx, hash); errors.Is(err, store.ErrNotFound) {
		return store.Agent{}, apierr.New(apierr.AuthFailed, "the set-up token was used meanwhile; make a new one with agentbus agents token")
	} else if err != nil {
		return store.Agent{}, err
	}
	if err := r.added(ctx, a, r.Store.PutAgent(ctx, a)); err != nil {
		return store.Agent{}, err
	}
	return r.Get(ctx, tenant, a.ID)
}

// Token creates a set-up token, whose bearer may register one agent for the tenant.
func (r *Registry) Token(ctx context.Context, tenant string) (token string, expires time.Time, err error) {
	token = "hub_" + rand.Text()
	now := r.Now()
	expires = now.Add(TokenLife).UTC().Truncate(time.Second)
	return token, expires, r.Store.AddToken(ctx, digest(token), tenant, now, expires)
}

// digest is what is kept of a token: it has 128 random bits, so that a slow hash would protect nothing more.
func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Remove removes an agent and publishes that.
func (r *Registry) Remove(ctx context.Context, a store.Agent) error {
	if err := r.Store.RemoveAgent(ctx, a.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	r.Log.InfoContext(ctx, "an agent was removed", telemetry.LogAgent, a.ID, telemetry.LogTenant, a.Tenant)
	return r.Publisher.PutAgent(ctx, bus.AgentRecord{ID: a.ID, Tenant: a.Tenant, Removed: true})
}

// added publishes an agent that was stored, unless err is set.
func (r *Registry) added(ctx context.Context, a store.Agent, err error) error {
	if errors.Is(err, store.ErrExists) {
		return apierr.New(apierr.InvalidMessageFormat, "an agent %q is registered already; remove it first, or give this one another id", a.ID)
	}
	if err != nil {
		return err
	}
	r.wake(a.ID)
	r.Log.InfoContext(ctx, "an agent was registered", telemetry.LogAgent, a.ID, telemetry.LogTenant, a.Tenant, "url", a.URL)
	return r.publish(ctx, a)
}

// candidate requests the agent's health and description, and makes a row of both.
func (r *Registry) candidate(ctx context.Context, tenant string, c Candidate) (store.Agent, error) {
	if err := c.check(); err != nil {
		return store.Agent{}, err
	}
	info, err := r.connect(ctx, c.URL, c.APIKey)
	if err != nil {
		return store.Agent{}, err
	}
	now := r.Now().UTC().Truncate(time.Millisecond)
	a := store.Agent{
		ID: cmp.Or(c.ID, info.AgentID), Tenant: tenant, Name: cmp.Or(c.Name, info.Name, c.ID, info.AgentID), URL: strings.TrimRight(c.URL, "/"),
		Capabilities: c.Capabilities, DefaultCwd: c.DefaultCwd, DefaultModel: c.DefaultModel,
		PermissionMode: c.DefaultPermissionMode, AllowedTools: c.DefaultAllowedTools, SystemPrompt: c.DefaultSystemPrompt,
		BudgetUSD: c.BudgetUSD, Online: true, LastHeartbeat: now, CreatedAt: now,
	}
	if len(a.Capabilities) == 0 {
		a.Capabilities = info.Capabilities
	}
	if a.Capabilities == nil {
		a.Capabilities = []string{}
	}
	if !id.Valid(a.ID) {
		return store.Agent{}, apierr.New(apierr.InvalidMessageFormat,
			"id %.80q must have 1 to %d letters, digits, _ and -", a.ID, id.MaxLength)
	}
	if r.Reserved(a.ID) {
		return store.Agent{}, apierr.New(apierr.InvalidMessageFormat,
			"an agent of the configuration is named %q; give the remote one another id", a.ID)
	}
	if len(a.Name) > maxText || !fit(a.Capabilities) {
		return store.Agent{}, apierr.New(apierr.InvalidMessageFormat,
			"what the agent says of itself is too long: at most %d characters a text, and %d capabilities", maxText, maxCapabilities)
	}
	a.SealedKey = r.Vault.Seal(a.ID, c.APIKey)
	return a, nil
}

// connect pings the agent.
func (r *Registry) connect(ctx context.Context, address, key string) (remoteagent.Info, error) {
	client := r.client(address, key)
	health, err := client.Health(ctx)
	if err != nil {
		return remoteagent.Info{}, strange(address, err)
	}
	if !health.Healthy {
		r.Log.WarnContext(ctx, "an agent that registers is not well", "url", address, "error", health.Error)
	}
	info, err := client.Info(ctx)
	if err != nil {
		return remoteagent.Info{}, strange(address, err)
	}
	return info, nil
}

// strange says in words for the one who registers why an agent did not answer well.
func strange(address string, err error) error {
	if denied, ok := errors.AsType[*egress.DeniedError](err); ok {
		return apierr.Wrap(err, apierr.InvalidMessageFormat,
			"the agent's URL must not be reached: %s; hub.allow and hub.plainHTTP in the configuration open private networks", denied.Reason)
	}
	refusal, refused := errors.AsType[*remoteagent.Refusal](err)
	switch {
	case refused && (refusal.HTTP == http.StatusUnauthorized || refusal.HTTP == http.StatusForbidden):
		return apierr.Wrap(err, apierr.InvalidMessageFormat, "the agent does not take this apiKey; give one of its AGENT_KEYS")
	case refused:
		// The body is not repeated: the server may not be an agent, and its answer may be for its own network alone.
		return apierr.Wrap(err, apierr.InvalidMessageFormat, "the server at %s answered %d, which an agent server does not", address, refusal.HTTP)
	default:
		return apierr.Wrap(err, apierr.InvalidMessageFormat,
			"no agent answers at %s; check the URL, and that the agent server runs and can be reached from here", address)
	}
}

func (c Candidate) check() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(c.URL) > maxText ||
		u.User != nil || strings.Trim(u.Path, "/") != "" || strings.ContainsAny(c.URL, "?#"):
		return apierr.New(apierr.InvalidMessageFormat, "url must be the address of an agent server and nothing more, such as https://vm-1.example.com:4001")
	case c.APIKey == "" || len(c.APIKey) > maxText || strings.ContainsAny(c.APIKey, "\r\n"):
		return apierr.New(apierr.InvalidMessageFormat, "apiKey is needed: one of the agent's AGENT_KEYS, at most %d characters", maxText)
	}
	return checkDefaults(store.Agent{
		Name: c.Name, DefaultCwd: c.DefaultCwd, DefaultModel: c.DefaultModel, BudgetUSD: c.BudgetUSD,
		PermissionMode: c.DefaultPermissionMode, AllowedTools: c.DefaultAllowedTools, SystemPrompt: c.DefaultSystemPrompt,
	})
}

func fit(capabilities []string) bool {
	for _, c := range capabilities {
		if len(c) > maxText {
			return false
		}
	}
	return len(capabilities) <= maxCapabilities
}
