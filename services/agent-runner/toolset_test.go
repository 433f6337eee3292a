package agentrunner

import (
	"slices"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/tool"
)

func TestAnAgentIsOfferedWhatItListsOfAServer(t *testing.T) {
	t.Parallel()
	sets := newToolsets()
	sets.bySource.Store("a", []tool.Spec{{Name: "a__x"}, {Name: "a__y", Approval: tool.ApprovalNever}})
	sets.bySource.Store("forgotten", []tool.Spec{{Name: "forgotten__z"}})
	cfg := config.Config{MCP: map[string]config.MCPServer{"a": {Approval: tool.ApprovalAlways}, "unknown": {}}}
	tests := []struct {
		name  string
		agent config.Agent
		want  []string
	}{
		{"one tool", config.Agent{Tools: []string{"clock", "a__y"}}, []string{"a__y always"}},
		{"all tools", config.Agent{Tools: []string{"a__*"}}, []string{"a__x always", "a__y always"}},
		{"none twice", config.Agent{Tools: []string{"a__y", "a__*"}}, []string{"a__y always", "a__x always"}},
		{"what the agent says of approvals goes before the rest",
			config.Agent{Tools: []string{"a__*"}, Approval: config.Approvals{"a__x": tool.ApprovalNever}}, []string{"a__x never", "a__y always"}},
		{"nothing of a server that was not reached", config.Agent{Tools: []string{"unknown__*"}}, nil},
		{"nothing of a server that is configured no more", config.Agent{Tools: []string{"forgotten__*"}}, nil},
		{"nothing of a tool that is there no more", config.Agent{Tools: []string{"a__gone"}}, nil},
	}
	for _, tt := range tests {
		cfg.Agents = map[string]config.Agent{"demo": tt.agent}
		var got []string
		for _, spec := range sets.specsFor(cfg, "demo") {
			got = append(got, spec.Name+" "+string(spec.Approval))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
