package agentserver

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

// list is every backend that may run tasks. A new one is a line here.
func list() map[string]func(config.Agent, environment) backend.Backend {
	return map[string]func(config.Agent, environment) backend.Backend{
		"scripted":  func(config.Agent, environment) backend.Backend { return backend.Stateless(scripted.New()) },
		"openai":    newOpenAI,
		"anthropic": newAnthropic,
	}
}

// BackendNames lists the backends that may run tasks, sorted.
func BackendNames() []string { return slices.Sorted(maps.Keys(list())) }

func newBackend(a config.Agent, getenv environment) (backend.Backend, error) {
	open, ok := list()[a.Backend]
	if !ok {
		return nil, fmt.Errorf("there is no backend %q (AGENT_BACKEND); there are %s", a.Backend, strings.Join(BackendNames(), ", "))
	}
	return open(a, getenv), nil
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
