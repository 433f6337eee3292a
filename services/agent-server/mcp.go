package agentserver

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/mcp"
	"github.com/agentbus/agentbus/pkg/tool/mcpconfig"
)

// listTime is how long a task waits for the first list of tools of a server.
const listTime = 10 * time.Second

// toolServers are the MCP servers whose tools the agent has. Its zero value has none.
type toolServers struct {
	config  config.Config
	agent   config.Agent
	servers []*toolServer
}

// toolServer is a server and its newest list of tools.
type toolServer struct {
	*mcp.Source

	listed func()        // closes first
	first  chan struct{} // closed when the server has listed its tools
	mu     sync.Mutex
	found  []tool.Spec
}

func newToolServers(cfg config.Config, agent config.Agent, secret func(string) (string, error)) (toolServers, error) {
	t := toolServers{config: cfg, agent: agent}
	for name, m := range cfg.MCP {
		if !slices.ContainsFunc(agent.Tools, func(tool string) bool { return strings.HasPrefix(tool, name+mcp.Separator) }) {
			continue
		}
		options, err := mcpconfig.Options(name, m, secret)
		if err != nil {
			return t, fmt.Errorf("mcp.%s.%w", name, err)
		}
		options.Version = service.Version()
		source, err := mcp.New(options)
		if err != nil {
			return t, fmt.Errorf("mcp.%s: %w", name, err)
		}
		s := &toolServer{Source: source, first: make(chan struct{})}
		s.listed = sync.OnceFunc(func() { close(s.first) })
		t.servers = append(t.servers, s)
	}
	return t, nil
}

// run keeps the servers connected until ctx is done.
func (t toolServers) run(ctx context.Context, log *slog.Logger) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, s := range t.servers {
		running.Go(func() {
			s.Run(ctx, func(ctx context.Context, found []tool.Spec) {
				s.mu.Lock()
				s.found = found
				s.mu.Unlock()
				s.listed()
				log.DebugContext(ctx, "an MCP server has listed its tools", "mcp", s.Name(), "tools", len(found))
			})
		})
	}
}

// tools returns the tools that the agent has of the servers now. A server that was never reached gets a while for its list.
func (t toolServers) tools() []tool.Tool {
	late := time.NewTimer(listTime)
	defer late.Stop()
	var tools []tool.Tool
	for _, s := range t.servers {
		select {
		case <-s.first:
		case <-late.C:
			late.Reset(0) // the others get no more time
		}
		s.mu.Lock()
		for _, spec := range s.found {
			if slices.Contains(t.agent.Tools, spec.Name) || slices.Contains(t.agent.Tools, s.Name()+mcp.Separator+"*") {
				spec = t.config.MCPSpec(s.Name(), spec)
				spec.Approval = t.agent.Approval.Of(spec.Name, spec.Approval)
				tools = append(tools, serverTool{s.Source, spec})
			}
		}
		s.mu.Unlock()
	}
	return tools
}

// serverTool is a tool of a server, whatever connection that has at the time of a call.
type serverTool struct {
	source *mcp.Source
	spec   tool.Spec
}

// Spec implements tool.Tool.
func (t serverTool) Spec() tool.Spec { return t.spec }

// Call implements tool.Tool.
func (t serverTool) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	found, err := t.source.Tool(ctx, t.spec.Name)
	if err != nil {
		return tool.Result{}, err
	}
	return found.Call(ctx, call)
}
