// Package agentbus is the program agentbus, for modules that add their own backends and tools to it. [Main] has all commands
// of agentbus: `dev` runs everything in one process, `agent-runner` and `tool-executor` run these services alone. All other
// services are those of agentbus.
package agentbus

import (
	"fmt"
	"os"

	"github.com/agentbus/agentbus/cmd/agentbus/command"
	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/catalog"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/tool"
)

// Option adds something to the program.
type Option func(*app.Extensions)

// WithBackend adds a backend. Agents whose configuration has `backend: name` use it; open is called once for each of them.
func WithBackend(name string, open func(config.Agent) (backend.Backend, error)) Option {
	return func(e *app.Extensions) { e.Backends[name] = open }
}

// WithTool adds a tool. Agents whose configuration lists its name under `tools` can call it.
func WithTool(t tool.Tool) Option {
	return func(e *app.Extensions) { e.Tools = append(e.Tools, t) }
}

// Main runs the command line in os.Args and ends the process. The exit code is 0 on success, 1 if the command failed, and 2
// if the command line or an option is wrong.
func Main(options ...Option) {
	extensions := app.Extensions{Backends: map[string]catalog.Factory{}}
	for _, option := range options {
		option(&extensions)
	}
	if err := extensions.Check(); err != nil {
		fmt.Fprintf(os.Stderr, "agentbus: %v\n", err)
		os.Exit(2)
	}
	command.Main(extensions)
}
