package builtin

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/hubtool"
)

// Hub is the name that stands for all tools of the hub in an agent's list.
const Hub = "hub"

// HubNames lists what agents may name where there is a hub: its tools, and [Hub] for all of them.
func HubNames() []string { return append(hubapi.Names(), Hub) }

// HubTools returns the tools of the hub as cfg has them.
func HubTools(cfg config.Config, h hubtool.Hub) []tool.Tool {
	tools := hubtool.Tools(h)
	for i, t := range tools {
		tools[i] = configured{Tool: t, spec: cfg.Tools[t.Spec().Name].Of(t.Spec())}
	}
	return tools
}

// WithHub adds the specs of the hub's tools to specs.
func WithHub(cfg config.Config, specs map[string]tool.Spec) map[string]tool.Spec {
	for _, spec := range hubtool.Specs() {
		specs[spec.Name] = cfg.Tools[spec.Name].Of(spec)
	}
	return specs
}

// Spread puts the tools that [Hub] stands for in its place.
func Spread(names []string) []string {
	at := slices.Index(names, Hub)
	if at < 0 {
		return names
	}
	all := slices.Concat(names[:at], hubapi.Names(), names[at+1:])
	slices.Sort(all)
	return slices.Compact(all)
}
