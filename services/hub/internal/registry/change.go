package registry

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub/internal/store"
	jsonv2 "github.com/go-json-experiment/json"
)

// Bounds of the defaults of an agent's tasks.
const (
	maxPrompt = 16 << 10 // bytes
	maxTools  = 1000
)

// Change is new values of an agent's registration; nil = as it is.
type Change struct {
	Name         *string  `json:"name"`
	DefaultCwd   *string  `json:"defaultCwd"`
	DefaultModel *string  `json:"defaultModel"`
	BudgetUSD    *float64 `json:"budgetUsd"`

	DefaultPermissionMode *remoteagent.PermissionMode `json:"defaultPermissionMode"`
	DefaultAllowedTools   json.RawMessage             `json:"defaultAllowedTools"` // a list of names, or null for all that the agent has
	DefaultSystemPrompt   *string                     `json:"defaultSystemPrompt"`
}

// Change applies a change to an agent, stores and publishes it.
func (r *Registry) Change(ctx context.Context, a store.Agent, c Change) (store.Agent, error) {
	if c.Name != nil && *c.Name == "" {
		return a, apierr.New(apierr.InvalidMessageFormat, "name is empty; leave it out to keep %q", a.Name)
	}
	set(&a.Name, c.Name)
	set(&a.DefaultCwd, c.DefaultCwd)
	set(&a.DefaultModel, c.DefaultModel)
	set(&a.BudgetUSD, c.BudgetUSD)
	set(&a.PermissionMode, c.DefaultPermissionMode)
	if len(c.DefaultAllowedTools) > 0 {
		a.AllowedTools = nil
		if err := jsonv2.Unmarshal(c.DefaultAllowedTools, &a.AllowedTools); err != nil {
			return a, apierr.Wrap(err, apierr.InvalidMessageFormat, "defaultAllowedTools must be a list of names, or null for all tools")
		}
	}
	set(&a.SystemPrompt, c.DefaultSystemPrompt)
	if err := checkDefaults(a); err != nil {
		return a, err
	}
	if err := r.Store.SetDefaults(ctx, a); err != nil {
		return a, err
	}
	return a, r.publish(ctx, a)
}

func set[T any](into, from *T) {
	if from != nil {
		*into = *from
	}
}

// checkDefaults checks what the tenant has set of an agent.
func checkDefaults(a store.Agent) error {
	switch {
	case len(a.DefaultCwd) > maxText || len(a.Name) > maxText || len(a.DefaultModel) > maxText:
		return apierr.New(apierr.InvalidMessageFormat, "name, defaultCwd and defaultModel have at most %d characters", maxText)
	case !(a.BudgetUSD >= 0 && a.BudgetUSD < 1e9):
		return apierr.New(apierr.InvalidMessageFormat, "budgetUsd must be an amount in US dollars; 0 = the hub's own limit")
	case a.PermissionMode != "" && !slices.Contains(remoteagent.PermissionModes(), a.PermissionMode):
		return apierr.New(apierr.InvalidMessageFormat, "defaultPermissionMode %.40q is not one of %q", a.PermissionMode, remoteagent.PermissionModes())
	case len(a.AllowedTools) > maxTools:
		return apierr.New(apierr.InvalidMessageFormat, "defaultAllowedTools has at most %d names", maxTools)
	case len(a.SystemPrompt) > maxPrompt:
		return apierr.New(apierr.InvalidMessageFormat, "defaultSystemPrompt has at most %d bytes", maxPrompt)
	}
	return nil
}
