// Package price turns tokens into money, by the price list of the configuration.
package price

import (
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
)

const million = 1e6

// Cost is what usage costs in US dollars, at the price of the first of names that the list knows; false when it knows
// none. Cached tokens without a price of their own cost as much as others.
func Cost(models map[string]config.Model, usage event.Usage, names ...string) (usd float64, known bool) {
	for _, name := range names {
		if model, ok := models[name]; ok {
			return cost(model.Price, usage), true
		}
	}
	return 0, false
}

func cost(p config.Price, u event.Usage) float64 {
	cached := p.CachedInput
	if cached == 0 {
		cached = p.Input
	}
	fresh := max(0, u.InputTokens-u.CachedInputTokens)
	return (float64(fresh)*p.Input + float64(u.CachedInputTokens)*cached + float64(u.OutputTokens)*p.Output) / million
}
