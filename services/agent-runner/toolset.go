package agentrunner

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/tool"
)

// toolsets are the tools of MCP servers that executors have published. A request uses those that exist when it begins.
type toolsets struct {
	known *sync.Map // source → []tool.Spec
	ready chan struct{}
	told  func() // closes ready
}

func newToolsets() toolsets {
	ready := make(chan struct{})
	return toolsets{known: new(sync.Map), ready: ready, told: sync.OnceFunc(func() { close(ready) })}
}

// watch keeps up with the executors until ctx is done.
func (t toolsets) watch(ctx context.Context, b Bus, log *slog.Logger) {
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for ctx.Err() == nil {
		err := b.WatchToolsets(ctx, func(s bus.Toolset) { t.known.Store(s.Source, s.Tools) }, t.told)
		if err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "the tools of MCP servers are not watched; trying again", "error", err)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
		}
	}
}

// wait waits until what is known has been read, or ctx is done.
func (t toolsets) wait(ctx context.Context) {
	select {
	case <-t.ready:
	case <-ctx.Done():
	}
}

// offer lists the tools of MCP servers that an agent may use now.
func (t toolsets) offer(cfg config.Config, agentName string) []tool.Spec {
	agent := cfg.Agents[agentName]
	var offered []tool.Spec
	for _, name := range agent.Tools {
		server, all, ok := cfg.MCPTool(name)
		if !ok {
			continue
		}
		for _, spec := range t.of(server) {
			already := slices.ContainsFunc(offered, func(s tool.Spec) bool { return s.Name == spec.Name })
			if already || !all && spec.Name != name {
				continue
			}
			spec = cfg.MCPSpec(server, spec)
			spec.Approval = agent.Approval.Of(spec.Name, spec.Approval)
			offered = append(offered, spec)
		}
	}
	return offered
}

func (t toolsets) of(server string) []tool.Spec {
	known, _ := t.known.Load(server)
	specs, _ := known.([]tool.Spec)
	return specs
}
