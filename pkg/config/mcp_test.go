package config_test

import (
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/tool"
)

func TestNamesOfMCPTools(t *testing.T) {
	t.Parallel()
	c := config.Config{MCP: map[string]config.MCPServer{"github": {Command: "x"}}}
	tests := []struct {
		name, tool, server string
		all, ok            bool
	}{
		{"one tool", "github__create_issue", "github", false, true},
		{"one with the separator in its name", "github__a__b", "github", false, true},
		{"all tools", "github__*", "github", true, true},
		{"none", "github__", "github", false, false},
		{"of another server", "gitlab__create_issue", "gitlab", false, false},
		{"no tool of a server", "clock", "clock", false, false},
	}
	for _, tt := range tests {
		server, all, ok := c.MCPTool(tt.tool)
		if server != tt.server || all != tt.all || ok != tt.ok {
			t.Errorf("%s: got %q, %v, %v", tt.name, server, all, ok)
		}
	}
}

func TestSettingsOfAToolPrecedeThoseOfItsServer(t *testing.T) {
	t.Parallel()
	c := config.Config{
		MCP:   map[string]config.MCPServer{"a": {Approval: tool.ApprovalNever, Effect: tool.EffectIdempotent, Timeout: config.Duration(time.Minute)}},
		Tools: map[string]config.Tool{"a__x": {Approval: tool.ApprovalAlways}},
	}
	offered := tool.Spec{Name: "a__x", Effect: tool.EffectUnsafe, Approval: tool.ApprovalNever, MaxOutput: 7}
	got := c.MCPSpec("a", offered)
	if got.Approval != tool.ApprovalAlways || got.Effect != tool.EffectIdempotent || got.Timeout != time.Minute || got.MaxOutput != 7 {
		t.Errorf("got %+v", got)
	}
}
