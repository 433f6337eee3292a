package config

import (
	"regexp"

	"github.com/agentbus/agentbus/pkg/event"
)

// Model is the price of a model, and the size of its context.
type Model struct {
	Price         Price `yaml:"price"`
	ContextWindow int64 `yaml:"contextWindow"` // tokens; 0 = not known
}

// Price is in US dollars for a million tokens.
type Price struct {
	Input       float64 `yaml:"input"`
	Output      float64 `yaml:"output"`
	CachedInput float64 `yaml:"cachedInput"` // 0 = as much as Input
}

const million = 1e6

// Cost is what usage costs at this price, in US dollars.
func (p Price) Cost(usage event.Usage) float64 {
	cached := p.CachedInput
	if cached == 0 {
		cached = p.Input
	}
	fresh := max(0, usage.InputTokens-usage.CachedInputTokens)
	return (float64(fresh)*p.Input + float64(usage.CachedInputTokens)*cached + float64(usage.OutputTokens)*p.Output) / million
}

// wellKnownModels have list prices and the windows that their providers name, so that costs show without a
// configuration. A file's entry replaces one.
func wellKnownModels() map[string]Model {
	return map[string]Model{
		"gpt-5":             {Price{Input: 1.25, Output: 10, CachedInput: 0.125}, 272_000},
		"gpt-5-mini":        {Price{Input: 0.25, Output: 2, CachedInput: 0.025}, 272_000},
		"gpt-5-nano":        {Price{Input: 0.05, Output: 0.4, CachedInput: 0.005}, 272_000},
		"gpt-4.1":           {Price{Input: 2, Output: 8, CachedInput: 0.5}, 1_047_576},
		"gpt-4.1-mini":      {Price{Input: 0.4, Output: 1.6, CachedInput: 0.1}, 1_047_576},
		"gpt-4.1-nano":      {Price{Input: 0.1, Output: 0.4, CachedInput: 0.025}, 1_047_576},
		"gpt-4o":            {Price{Input: 2.5, Output: 10, CachedInput: 1.25}, 128_000},
		"gpt-4o-mini":       {Price{Input: 0.15, Output: 0.6, CachedInput: 0.075}, 128_000},
		"o3":                {Price{Input: 2, Output: 8, CachedInput: 0.5}, 200_000},
		"o4-mini":           {Price{Input: 1.1, Output: 4.4, CachedInput: 0.275}, 200_000},
		"claude-opus-4-5":   {Price{Input: 5, Output: 25, CachedInput: 0.5}, 200_000},
		"claude-opus-4-1":   {Price{Input: 15, Output: 75, CachedInput: 1.5}, 200_000},
		"claude-sonnet-4-5": {Price{Input: 3, Output: 15, CachedInput: 0.3}, 200_000},
		"claude-sonnet-4":   {Price{Input: 3, Output: 15, CachedInput: 0.3}, 200_000},
		"claude-haiku-4-5":  {Price{Input: 1, Output: 5, CachedInput: 0.1}, 200_000},
	}
}

// dated matches the date that providers add to the name of a model: gpt-4.1-mini-2025-04-14, claude-…-20250929.
var dated = regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|\d{8}|latest)$`)

// Price returns what model costs.
func (c Config) Price(model string) (Price, bool) {
	m, ok := c.model(model)
	return m.Price, ok
}

// ContextWindow returns how many tokens model can read; 0 = not known.
func (c Config) ContextWindow(model string) int64 {
	m, _ := c.model(model)
	return m.ContextWindow
}

// model finds a dated name without an entry by the name without the date.
func (c Config) model(name string) (Model, bool) {
	m, ok := c.Models[name]
	if !ok {
		m, ok = c.Models[dated.ReplaceAllString(name, "")]
	}
	return m, ok
}
