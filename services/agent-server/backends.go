package agentserver

import (
	"fmt"
	"slices"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/catalog"
	"github.com/agentbus/agentbus/pkg/config"
)

// BackendNames lists the backends that may run tasks, sorted.
func BackendNames() []string {
	return slices.DeleteFunc(catalog.Names(), func(name string) bool { return name == config.BackendRemote })
}

func newBackend(a config.Agent, getenv func(string) string) (backend.Backend, error) {
	b, err := catalog.Open(a, getenv, nil)
	if err != nil {
		return nil, fmt.Errorf("AGENT_BACKEND: %w", err)
	}
	return b, nil
}
