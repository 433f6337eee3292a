package toolexecutor

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/mcp"
	"github.com/agentbus/agentbus/pkg/tool/mcpconfig"
)

// Toolsets publishes the tools of a source to runners.
type Toolsets interface {
	PutToolset(ctx context.Context, t bus.Toolset) error
}

// sources are the MCP servers of the configuration, by name.
type sources map[string]*mcp.Source

func newSources(d Deps) (sources, error) {
	all := make(sources, len(d.Config.MCP))
	for name, m := range d.Config.MCP {
		options, err := mcpconfig.Options(name, m, d.Secret)
		if err != nil {
			return nil, fmt.Errorf("mcp.%s.%w", name, err)
		}
		options.Log, options.Version = d.Log, service.Version()
		if all[name], err = mcp.New(options); err != nil {
			return nil, fmt.Errorf("mcp.%s: %w", name, err)
		}
	}
	return all, nil
}

// run keeps the sources connected until ctx is done, and publishes their tools to runners.
func (s sources) run(ctx context.Context, to Toolsets, log *slog.Logger) {
	var running sync.WaitGroup
	defer running.Wait()
	for name, source := range s {
		running.Go(func() {
			source.Run(ctx, func(ctx context.Context, found []tool.Spec) {
				if err := to.PutToolset(ctx, bus.Toolset{Source: name, Tools: found}); err != nil {
					log.WarnContext(ctx, "the tools of an MCP server are not announced; trying again in a minute", "mcp", name, "error", err)
				}
			})
		})
	}
}

// offered is a tool of a source under the operator's settings.
type offered struct {
	tool.Tool
	spec tool.Spec
}

func (o offered) Spec() tool.Spec { return o.spec }

// find returns the tool of that name. An error is the reason, for the model, or ctx's error.
func (e *Executor) find(ctx context.Context, name string) (tool.Tool, error) {
	if t, ok := e.tools[name]; ok {
		return t, nil
	}
	server, _, ok := e.deps.Config.MCPTool(name)
	if !ok {
		names := strings.Join(slices.Sorted(maps.Keys(e.tools)), ", ")
		return nil, apierr.New(apierr.ToolError, "there is no tool %.64q; the tools are: %s", name, names)
	}
	t, err := e.sources[server].Tool(ctx, name)
	if err != nil {
		return nil, err
	}
	return offered{Tool: t, spec: e.deps.Config.MCPSpec(server, t.Spec())}, nil
}
