package task

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

// defaultPeriod is the time over which costs are counted.
const defaultPeriod = 30 * 24 * time.Hour

// costs is what a tenant's tasks have cost in the budget's period, by agent.
func (d *Service) costs(ctx context.Context, tenant string) (map[string]float64, error) {
	return d.store.Costs(ctx, tenant, d.registry.Now().Add(-d.budget.Per.Or(defaultPeriod)))
}

func total(costs map[string]float64) float64 {
	var sum float64
	for _, usd := range costs {
		sum += usd
	}
	return event.RoundUSD(sum)
}

// room is what a new task of the agent may cost by the budgets of the agent and of the hub. None is a fault.
func (d *Service) room(ctx context.Context, agent store.Agent) (float64, error) {
	left, what, err := d.left(ctx, agent)
	if err == nil && left <= 0 {
		err = apierr.New(apierr.RateLimitExceeded, "%s is used up; raise it, or wait until older tasks do not count any more", what)
	}
	return left, err
}

// left is what the smaller of both budgets has left, and which that is. Without budgets it is without end.
func (d *Service) left(ctx context.Context, agent store.Agent) (usd float64, what string, err error) {
	limit := agent.BudgetUSD
	if limit == 0 {
		limit = d.budget.AgentUSD
	}
	if limit == 0 && d.budget.TotalUSD == 0 {
		return math.Inf(1), "", nil
	}
	costs, err := d.costs(ctx, agent.Tenant)
	if err != nil {
		return 0, "", err
	}
	usd = math.Inf(1)
	if limit > 0 {
		usd, what = limit-costs[agent.ID], fmt.Sprintf("the budget of agent %s (%s)", agent.ID, dollars(limit))
	}
	if all := d.budget.TotalUSD - total(costs); d.budget.TotalUSD > 0 && all < usd {
		usd, what = all, fmt.Sprintf("the budget of all agents (%s)", dollars(d.budget.TotalUSD))
	}
	return usd, what, nil
}

// dollars writes an amount; one below a cent has all its digits.
func dollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return "$" + strconv.FormatFloat(usd, 'f', -1, 64)
	}
	return fmt.Sprintf("$%.2f", usd)
}
