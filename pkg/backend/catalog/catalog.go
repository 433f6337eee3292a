// Package catalog is the one list of the backends that the configuration of an agent may name, for every service that runs
// agents. Read pkg/backend for what a backend is.
package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/anthropic"
	"github.com/agentbus/agentbus/pkg/backend/cli"
	"github.com/agentbus/agentbus/pkg/backend/cli/wire"
	"github.com/agentbus/agentbus/pkg/backend/openai"
	"github.com/agentbus/agentbus/pkg/backend/scripted"
	"github.com/agentbus/agentbus/pkg/config"
)

// Environment looks a variable up; "" = not set.
type Environment func(name string) string

// list is every backend that an agent may name. A new one is a line here.
func list() map[string]func(config.Agent, Environment) backend.Backend {
	return map[string]func(config.Agent, Environment) backend.Backend{
		"scripted":             func(config.Agent, Environment) backend.Backend { return backend.Stateless(scripted.New()) },
		"openai":               newOpenAI,
		"anthropic":            newAnthropic,
		config.BackendClaude:   program(cli.Claude),
		config.BackendCodex:    program(cli.Codex),
		config.BackendOpenCode: program(cli.OpenCode),
		config.BackendCLI:      program(cli.New),
	}
}

// Names lists the backends, sorted.
func Names() []string { return slices.Sorted(maps.Keys(list())) }

// Factory opens the backend of an agent. It is called once for each agent, when the service starts.
type Factory func(config.Agent) (backend.Backend, error)

// Open opens the backend of an agent, one of the list or of added. Keys and addresses that the agent does not name come
// from the environment.
func Open(a config.Agent, getenv func(string) string, added map[string]Factory) (backend.Backend, error) {
	if open, ok := added[a.Backend]; ok {
		return open(a)
	}
	open, ok := list()[a.Backend]
	if !ok {
		names := slices.Concat(Names(), slices.Sorted(maps.Keys(added)))
		return nil, fmt.Errorf("there is no backend %q; there are %s", a.Backend, strings.Join(names, ", "))
	}
	return open(a, getenv), nil
}

func newOpenAI(a config.Agent, getenv Environment) backend.Backend {
	key := cmp.Or(a.APIKeyEnv, "OPENAI_API_KEY")
	return backend.Stateless(openai.New(openai.Options{
		BaseURL: cmp.Or(a.BaseURL, getenv("OPENAI_BASE_URL")), APIKey: getenv(key), KeyEnv: key,
	}))
}

func newAnthropic(a config.Agent, getenv Environment) backend.Backend {
	key := cmp.Or(a.APIKeyEnv, "ANTHROPIC_API_KEY")
	return backend.Stateless(anthropic.New(anthropic.Options{
		BaseURL: cmp.Or(a.BaseURL, getenv("ANTHROPIC_BASE_URL")), APIKey: getenv(key), KeyEnv: key,
	}))
}

// program opens the backend of a program with what an agent says of it.
func program(open func(cli.Options) *cli.Backend) func(config.Agent, Environment) backend.Backend {
	return func(a config.Agent, _ Environment) backend.Backend {
		c := a.CLI
		return open(cli.Options{
			Command: c.Command, Args: c.Args, Env: c.Env, PassEnv: c.PassEnv, ClearEnv: c.ClearEnv, Workspace: a.Workspace,
			Quiet: time.Duration(c.Quiet.Fresh), QuietResume: time.Duration(c.Quiet.Resume), UnitCost: c.UnitCost,
			SessionMode: cli.SessionMode(c.SessionMode), SessionArgs: c.SessionArgs, Output: cli.Output(c.Output),
			Fields: wire.Fields{Text: c.Fields.Text, Session: c.Fields.Session, Error: c.Fields.Error},
		})
	}
}
