package agentrunner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/anthropic"
	"github.com/agentbus/agentbus/pkg/backend/openai"
	"github.com/agentbus/agentbus/pkg/backend/scripted"
	"github.com/agentbus/agentbus/pkg/config"
)

// environment looks a variable up; "" = not set.
type environment func(name string) string

// list is every backend that an agent may name. A new one is a line here.
func list() map[string]func(config.Agent, environment) backend.Backend {
	return map[string]func(config.Agent, environment) backend.Backend{
		"scripted":  func(config.Agent, environment) backend.Backend { return backend.Stateless(scripted.New()) },
		"openai":    newOpenAI,
		"anthropic": newAnthropic,
	}
}

// BackendNames lists the backends that an agent may name, sorted.
func BackendNames() []string { return slices.Sorted(maps.Keys(list())) }

// Backends makes the backend of each agent in c. Keys and addresses that c does not name come from the environment.
func Backends(c config.Config, getenv func(string) string) (map[string]backend.Backend, error) {
	backends := make(map[string]backend.Backend, len(c.Agents))
	for name, agent := range c.Agents {
		open, ok := list()[agent.Backend]
		if !ok {
			return nil, fmt.Errorf("agent %s: there is no backend %q; there are %s",
				name, agent.Backend, strings.Join(BackendNames(), ", "))
		}
		backends[name] = open(agent, getenv)
	}
	return backends, nil
}

func newOpenAI(a config.Agent, getenv environment) backend.Backend {
	key := cmp.Or(a.APIKeyEnv, "OPENAI_API_KEY")
	return backend.Stateless(openai.New(openai.Options{
		BaseURL: cmp.Or(a.BaseURL, getenv("OPENAI_BASE_URL")), APIKey: getenv(key), KeyEnv: key,
	}))
}

func newAnthropic(a config.Agent, getenv environment) backend.Backend {
	key := cmp.Or(a.APIKeyEnv, "ANTHROPIC_API_KEY")
	return backend.Stateless(anthropic.New(anthropic.Options{
		BaseURL: cmp.Or(a.BaseURL, getenv("ANTHROPIC_BASE_URL")), APIKey: getenv(key), KeyEnv: key,
	}))
}
