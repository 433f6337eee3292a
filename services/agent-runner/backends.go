package agentrunner

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/catalog"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/telemetry"
)

// Backends opens the backend of each agent in c, a built-in one or one of added. Keys and addresses that c does not name come
// from the environment.
func Backends(c config.Config, getenv func(string) string, added map[string]catalog.Factory) (map[string]backend.Backend, error) {
	backends := make(map[string]backend.Backend, len(c.Agents))
	for name, agent := range c.Agents {
		b, err := catalog.Open(agent, getenv, added)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", name, err)
		}
		backends[name] = b
	}
	return backends, nil
}

// logUnavailable logs agents that cannot run here, for example because a program is not installed.
func (r *Runner) logUnavailable(ctx context.Context) {
	for name, a := range r.agents {
		if err := backend.Available(ctx, a.backend); err != nil {
			r.deps.Log.WarnContext(ctx, "an agent cannot run here", telemetry.LogAgent, name, "error", err)
		}
	}
}
