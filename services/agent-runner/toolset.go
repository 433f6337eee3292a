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

// toolsets are the tools of MCP servers that executors have published. A request uses those published before it starts.
type toolsets struct {
	bySource  *sync.Map // source → []tool.Spec
	ready     chan struct{}
	markReady func() // closes ready
}

func newToolsets() toolsets {
	ready := make(chan struct{})
	return toolsets{bySource: new(sync.Map), ready: ready, markReady: sync.OnceFunc(func() { close(ready) })}
}

// watch stores published toolsets until ctx is done.
func (t toolsets) watch(ctx context.Context, b Bus, log *slog.Logger) {
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for ctx.Err() == nil {
		err := b.WatchToolsets(ctx, func(s bus.Toolset) { t.bySource.Store(s.Source, s.Tools) }, t.markReady)
		if err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "could not watch the tools of MCP servers; trying again", "error", err)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
		}
	}
}

// wait waits until the published toolsets have been read, or ctx is done.
func (t toolsets) wait(ctx context.Context) {
	select {
	case <-t.ready:
	case <-ctx.Done():
	}
}

// specsFor returns the tools of MCP servers that an agent may use now.
func (t toolsets) specsFor(cfg config.Config, agentName string) []tool.Spec {
	agent := cfg.Agents[agentName]
	var offered []tool.Spec
	for _, name := range agent.Tools {
		server, all, ok := cfg.MCPTool(name)
		if !ok {
			continue
		}
		for _, spec := range t.specsOf(server) {
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

func (t toolsets) specsOf(server string) []tool.Spec {
	known, _ := t.bySource.Load(server)
	specs, _ := known.([]tool.Spec)
	return specs
}
