package toolexecutor

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/mcp"
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
		options, err := sourceOptions(name, m, d.Secret)
		if err != nil {
			return nil, fmt.Errorf("mcp.%s.%w", name, err)
		}
		options.Log = d.Log
		if all[name], err = mcp.New(options); err != nil {
			return nil, fmt.Errorf("mcp.%s: %w", name, err)
		}
	}
	return all, nil
}

func sourceOptions(name string, m config.MCPServer, secret func(string) (string, error)) (mcp.Options, error) {
	o := mcp.Options{
		Name: name, Command: m.Command, Args: m.Args, Dir: m.Dir, URL: m.URL, Tools: m.Tools, Version: service.Version(), Resources: m.Resources, Prompts: m.Prompts, Elicitation: m.Elicitation,
		Headers: make(map[string]string, len(m.Headers)), Env: mcp.Environment(),
	}
	var err error
	if o.Allow, err = egress.ParseAllow(m.Allow); err != nil {
		return o, fmt.Errorf("allow: %w", err)
	}
	for header, value := range m.Headers {
		if o.Headers[header], err = reveal(value, secret); err != nil {
			return o, fmt.Errorf("headers.%s: %w", header, err)
		}
	}
	if m.OAuth.ClientID != "" {
		o.OAuth = &mcp.OAuth{ClientID: m.OAuth.ClientID, Issuer: m.OAuth.Issuer}
		if o.OAuth.ClientSecret, err = reveal(m.OAuth.ClientSecret, secret); err != nil {
			return o, fmt.Errorf("oauth.clientSecret: %w", err)
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(m.Env)) {
		value, err := reveal(m.Env[variable], secret)
		if err != nil {
			return o, fmt.Errorf("env.%s: %w", variable, err)
		}
		o.Env = append(o.Env, variable+"="+value)
	}
	return o, nil
}

var placeholder = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// reveal puts secrets where text names them, as ${NAME}.
func reveal(text string, secret func(string) (string, error)) (string, error) {
	var failed error
	text = placeholder.ReplaceAllStringFunc(text, func(name string) string {
		value, err := secret(strings.Trim(name, "${}"))
		if err != nil && failed == nil {
			failed = err
		}
		return value
	})
	return text, failed
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
