package task

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/sqldb"
	"github.com/agentbus/agentbus/services/hub/internal/registry"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

// TestBudgets counts what two agents of a tenant have cost: vm-1 3 dollars recently and 100 dollars long ago, vm-2 4 dollars.
func TestBudgets(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 6, 1, 0, 0, 0, 0, time.UTC)
	s, err := store.Open(t.Context(), sqldb.Memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, cost := range []struct {
		ref, tenant, agent string
		usd                float64
		age                time.Duration
	}{
		{"asg_1", "acme", "vm-1", 1, time.Hour},
		{"asg_2", "acme", "vm-1", 2, 29 * 24 * time.Hour},
		{"asg_3", "acme", "vm-1", 100, 31 * 24 * time.Hour},
		{"asg_4", "acme", "vm-2", 4, time.Minute},
		{"asg_5", "globex", "vm-3", 50, time.Minute},
	} {
		created := now.Add(-cost.age)
		added, err := s.AddTask(t.Context(), store.Task{
			Ref: cost.ref, Tenant: cost.tenant, AgentID: cost.agent, Status: remoteagent.Running, CreatedAt: created, UpdatedAt: created,
		})
		if err != nil {
			t.Fatal(err)
		}
		added.CostUSD = cost.usd
		if _, err := s.PutTask(t.Context(), added); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		budget config.Budget
		agent  float64 // its own budget
		want   float64
		names  string // part of the refusal; "" = accepted
	}{
		{"no budget", config.Budget{}, 0, math.Inf(1), ""},
		{"a budget of each agent", config.Budget{AgentUSD: 10}, 0, 7, ""},
		{"the agent's own budget comes first", config.Budget{AgentUSD: 10}, 5, 2, ""},
		{"a budget of all agents of the tenant", config.Budget{TotalUSD: 10}, 0, 3, ""},
		{"the smaller one counts", config.Budget{TotalUSD: 10, AgentUSD: 4}, 0, 1, ""},
		{"an agent's budget that is used up", config.Budget{AgentUSD: 3}, 0, 0, "the budget of agent vm-1 ($3.00)"},
		{"a budget below a cent", config.Budget{AgentUSD: 0.0078125}, 0, -2.9921875, "the budget of agent vm-1 ($0.0078125)"},
		{"the tenant's budget that is used up", config.Budget{TotalUSD: 6, AgentUSD: 10}, 0, -1, "the budget of all agents ($6.00)"},
		{"a longer period counts older tasks", config.Budget{AgentUSD: 50, Per: config.Duration(60 * 24 * time.Hour)}, 0, -53, "agent vm-1"},
		{"a shorter period forgets", config.Budget{AgentUSD: 10, Per: config.Duration(24 * time.Hour)}, 0, 9, ""},
	}
	for _, test := range tests {
		r := registry.New(registry.Options{Now: func() time.Time { return now }})
		d := NewService(s, r, test.budget, slog.New(slog.DiscardHandler))
		left, err := d.room(t.Context(), store.Agent{ID: "vm-1", Tenant: "acme", BudgetUSD: test.agent})
		if left != test.want {
			t.Errorf("%s: got $%v left, want $%v", test.name, left, test.want)
		}
		refused := test.names != ""
		if refused && (apierr.CodeOf(err) != apierr.RateLimitExceeded || !strings.Contains(err.Error(), test.names)) || !refused && err != nil {
			t.Errorf("%s: got %v, want a refusal with %q", test.name, err, test.names)
		}
	}
}
