package builtin_test

import (
	"slices"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
)

func TestHubToolsetIsExpanded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ names, want []string }{
		"no hub":                         {[]string{"clock", "echo"}, []string{"clock", "echo"}},
		"the hub alone":                  {[]string{"hub"}, []string{"answer_task", "assign_task", "cancel_task", "check_status", "get_result", "list_agents"}},
		"the hub in addition to its own": {[]string{"list_agents", "hub"}, []string{"answer_task", "assign_task", "cancel_task", "check_status", "get_result", "list_agents"}},
	} {
		if got := builtin.Spread(tt.names); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestToolsOfTheHubAreConfigured(t *testing.T) {
	t.Parallel()
	cfg := config.Config{Tools: map[string]config.Tool{
		hubapi.VerbAssignTask: {Approval: tool.ApprovalAlways, Timeout: config.Duration(3 * time.Second)},
	}}
	specs := builtin.WithHub(cfg, map[string]tool.Spec{})
	tools := builtin.HubTools(cfg, hubapi.Client{})
	if len(tools) != len(hubapi.Names()) || len(specs) != len(tools) {
		t.Fatalf("got %d tools and %d specs", len(tools), len(specs))
	}
	for _, one := range tools {
		if got, want := one.Spec(), specs[one.Spec().Name]; got.Approval != want.Approval || got.Timeout != want.Timeout {
			t.Errorf("%s: executors have %+v, models see %+v", got.Name, got, want)
		}
	}
	if got := specs[hubapi.VerbAssignTask]; got.Approval != tool.ApprovalAlways || got.Timeout != 3*time.Second {
		t.Errorf("got %+v, want what the configuration sets", got)
	}
}
