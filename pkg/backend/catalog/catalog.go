// Package catalog is the one list of the backends that the configuration of an agent may name, for every service that runs
// agents. Read pkg/backend for what a backend is.
package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/a2a"
	"github.com/agentbus/agentbus/pkg/backend/acp"
	"github.com/agentbus/agentbus/pkg/backend/agui"
	"github.com/agentbus/agentbus/pkg/backend/aisdk"
	"github.com/agentbus/agentbus/pkg/backend/anthropic"
	"github.com/agentbus/agentbus/pkg/backend/cli"
	"github.com/agentbus/agentbus/pkg/backend/cli/wire"
	"github.com/agentbus/agentbus/pkg/backend/httpagent"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
	"github.com/agentbus/agentbus/pkg/backend/langgraph"
	"github.com/agentbus/agentbus/pkg/backend/openai"
	"github.com/agentbus/agentbus/pkg/backend/scripted"
	"github.com/agentbus/agentbus/pkg/config"
)

// Environment looks a variable up; "" = not set.
type Environment func(name string) string

// list is every backend that an agent may name. A new one is a line here. The backend remote needs the hub, and is nil here: an
// agent-runner opens it for each request.
func list() map[string]func(config.Agent, Environment) backend.Backend {
	return map[string]func(config.Agent, Environment) backend.Backend{
		"scripted":              func(config.Agent, Environment) backend.Backend { return backend.Stateless(scripted.New()) },
		config.BackendOpenAI:    newOpenAI,
		config.BackendResponses: newResponses,
		config.BackendAnthropic: newAnthropic,
		config.BackendClaude:    program(cli.Claude),
		config.BackendCodex:     program(cli.Codex),
		config.BackendOpenCode:  program(cli.OpenCode),
		config.BackendCLI:       program(cli.New),
		config.BackendACP:       newACP,
		config.BackendHTTP:      newHTTP,
		config.BackendAGUI:      newAGUI,
		config.BackendAISDK:     newAISDK,
		config.BackendLangGraph: newLangGraph,
		config.BackendA2A:       newA2A,
		config.BackendRemote:    func(config.Agent, Environment) backend.Backend { return nil },
	}
}

// Names lists the backends, sorted.
func Names() []string { return slices.Sorted(maps.Keys(list())) }

// CheckScript returns why the backend scripted cannot run a script, nil if it can.
func CheckScript(script string) error {
	_, err := scripted.Parse(script)
	if f, ok := errors.AsType[*apierr.Error](err); ok {
		return errors.New(f.Message)
	}
	return err
}

// Factory opens the backend of an agent. It is called once for each agent, when the service starts.
type Factory func(config.Agent) (backend.Backend, error)

// Open opens the backend of an agent, one of the list or of added; nil for config.BackendRemote. Keys and addresses that the agent does not name come
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
	var err error
	if a.Headers, err = reveal(a.Headers, getenv); err != nil {
		return nil, fmt.Errorf("headers: %w", err)
	}
	if a.Query, err = reveal(a.Query, getenv); err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	return open(a, getenv), nil
}

func newOpenAI(a config.Agent, getenv Environment) backend.Backend {
	return backend.Stateless(openai.New(openAIOptions(a, getenv)))
}

func newResponses(a config.Agent, getenv Environment) backend.Backend {
	return backend.Stateless(openai.NewResponses(openAIOptions(a, getenv)))
}

func openAIOptions(a config.Agent, getenv Environment) openai.Options {
	key := cmp.Or(a.APIKeyEnv, "OPENAI_API_KEY")
	return openai.Options{
		BaseURL: cmp.Or(a.BaseURL, getenv("OPENAI_BASE_URL")), BaseEnv: baseName(a), APIKey: getenv(key), KeyEnv: key, Name: a.Provider,
		Headers: a.Headers, Query: a.Query, ReturnThinking: openai.ReturnThinking(a.ReturnThinking), ThinkTags: a.ThinkTags,
	}
}

func newAnthropic(a config.Agent, getenv Environment) backend.Backend {
	key := cmp.Or(a.APIKeyEnv, "ANTHROPIC_API_KEY")
	return backend.Stateless(anthropic.New(anthropic.Options{
		BaseURL: cmp.Or(a.BaseURL, getenv("ANTHROPIC_BASE_URL")), BaseEnv: baseName(a), APIKey: getenv(key), KeyEnv: key, Name: a.Provider,
		Headers: a.Headers, Query: a.Query, Uncached: a.PromptCaching == config.PromptCachingOff,
	}))
}

// baseName is what messages call the setting that has the address; "" = the variable of the backend.
func baseName(a config.Agent) string {
	if a.BaseURL != "" {
		return "baseURL"
	}
	return ""
}

// variable is how a header or a parameter of the query names a variable of the environment.
var variable = regexp.MustCompile(`\$\{[^}]*\}`)

// reveal puts the values of variables where texts name them.
func reveal(texts map[string]string, getenv Environment) (map[string]string, error) {
	revealed := map[string]string{}
	for name, text := range texts {
		for _, found := range variable.FindAllString(text, -1) {
			value := getenv(strings.Trim(found, "${}"))
			if value == "" {
				return nil, fmt.Errorf("%s needs the variable %s, which is not set", name, strings.Trim(found, "${}"))
			}
			text = strings.ReplaceAll(text, found, value)
		}
		revealed[name] = text
	}
	return revealed, nil
}

// program opens the backend of a program with what an agent says of it.
func program(open func(cli.Options) *cli.Backend) func(config.Agent, Environment) backend.Backend {
	return func(a config.Agent, _ Environment) backend.Backend {
		c := a.CLI
		return open(cli.Options{
			Command: c.Command, Args: c.Args, Env: c.Env, PassEnv: c.PassEnv, ClearEnv: c.ClearEnv, Workspace: a.Workspace,
			Quiet: time.Duration(c.Quiet.Fresh), QuietResume: time.Duration(c.Quiet.Resume), UnitCost: c.UnitCost,
			Permissions: permission.Mode(c.Permissions),
			SessionMode: cli.SessionMode(c.SessionMode), SessionArgs: c.SessionArgs, Output: cli.Output(c.Output),
			Fields: wire.Fields{Text: c.Fields.Text, Session: c.Fields.Session, Error: c.Fields.Error},
		})
	}
}

func newACP(a config.Agent, _ Environment) backend.Backend {
	c := a.CLI
	return acp.New(acp.Options{
		Command: c.Command, Args: c.Args, Env: c.Env, PassEnv: c.PassEnv, ClearEnv: c.ClearEnv, Workspace: a.Workspace,
		Auth: c.Auth, Permissions: permission.Mode(c.Permissions),
		Quiet: time.Duration(c.Quiet.Fresh), QuietResume: time.Duration(c.Quiet.Resume), UnitCost: c.UnitCost,
	})
}

func newHTTP(a config.Agent, getenv Environment) backend.Backend {
	return httpagent.New(httpagent.Options{
		URL: a.URL, Headers: a.Headers, Query: a.Query, APIKey: named(a.APIKeyEnv, getenv), KeyEnv: a.APIKeyEnv,
		SigningKey: named(a.SigningKeyEnv, getenv), SigningEnv: a.SigningKeyEnv, Quiet: time.Duration(a.Quiet),
	})
}

func newAGUI(a config.Agent, getenv Environment) backend.Backend {
	return agui.New(agui.Options{
		URL: a.URL, Headers: a.Headers, Query: a.Query, APIKey: named(a.APIKeyEnv, getenv), KeyEnv: a.APIKeyEnv,
		New: a.Send == config.SendNew, Quiet: time.Duration(a.Quiet),
	})
}

func newAISDK(a config.Agent, getenv Environment) backend.Backend {
	return aisdk.New(aisdk.Options{
		URL: a.URL, Headers: a.Headers, Query: a.Query, APIKey: named(a.APIKeyEnv, getenv), KeyEnv: a.APIKeyEnv,
		New: a.Send == config.SendNew, Quiet: time.Duration(a.Quiet),
	})
}

func newLangGraph(a config.Agent, getenv Environment) backend.Backend {
	return langgraph.New(langgraph.Options{
		URL: a.URL, Assistant: a.Assistant, Headers: a.Headers, Query: a.Query, APIKey: named(a.APIKeyEnv, getenv), KeyEnv: a.APIKeyEnv,
		Quiet: time.Duration(a.Quiet),
	})
}

func newA2A(a config.Agent, getenv Environment) backend.Backend {
	return a2a.New(a2a.Options{
		URL: a.URL, Headers: a.Headers, Query: a.Query, APIKey: named(a.APIKeyEnv, getenv), KeyEnv: a.APIKeyEnv, Quiet: time.Duration(a.Quiet),
	})
}

// named returns the value of a variable; "" for no name.
func named(variable string, getenv Environment) string {
	if variable == "" {
		return ""
	}
	return getenv(variable)
}
