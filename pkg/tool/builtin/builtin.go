// Package builtin is the list of the tools of an installation: those that every one has, and those that its configuration
// adds. The tool-executor runs them; the agent-runner shows their specs to models. Both apply the same configuration to
// them, here.
package builtin

import (
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/calculator"
	"github.com/agentbus/agentbus/pkg/tool/clock"
	"github.com/agentbus/agentbus/pkg/tool/echo"
	"github.com/agentbus/agentbus/pkg/tool/httpget"
)

// Toolset is the token under which calls of these tools are queued.
const Toolset = "builtin"

// Tools returns the tools as cfg has them: each Spec is the one that [Specs] gives. Secret gives the values of the secrets
// that cfg names. An error names the entry of the configuration that is wrong. More are the tools of the program.
func Tools(cfg config.Config, secret func(name string) (string, error), more ...tool.Tool) ([]tool.Tool, error) {
	allow, err := egress.ParseAllow(cfg.Tools[httpget.Name].Allow)
	if err != nil {
		return nil, fmt.Errorf("tools.%s.allow: %w", httpget.Name, err)
	}
	tools := append(list(allow), more...)
	for i, t := range tools {
		tools[i] = configured{Tool: t, spec: cfg.Tools[t.Spec().Name].Of(t.Spec())}
	}
	described, err := added(cfg, secret)
	return append(tools, described...), err
}

// list is where a new built-in tool gets its line.
func list(allow egress.AllowList) []tool.Tool {
	return []tool.Tool{
		calculator.New(),
		clock.New(time.Now),
		echo.New(),
		httpget.New(allow),
	}
}

// Specs returns the specs of the tools by name, with what cfg changes about them.
func Specs(cfg config.Config, more ...tool.Tool) map[string]tool.Spec {
	specs := addedSpecs(cfg)
	for _, t := range append(list(egress.AllowList{}), more...) {
		spec := t.Spec()
		specs[spec.Name] = cfg.Tools[spec.Name].Of(spec)
	}
	return specs
}

// Names lists the tools that every installation has, sorted.
func Names() []string {
	var names []string
	for _, t := range list(egress.AllowList{}) {
		names = append(names, t.Spec().Name)
	}
	return names
}

// configured is a tool under the operator's settings.
type configured struct {
	tool.Tool
	spec tool.Spec
}

func (c configured) Spec() tool.Spec { return c.spec }
