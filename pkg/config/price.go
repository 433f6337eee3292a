package config

import (
	"cmp"
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
	Input       float64    `yaml:"input"`
	Output      float64    `yaml:"output"`
	CachedInput float64    `yaml:"cachedInput"` // of tokens read from a cache; 0 = as much as Input
	CacheWrite  float64    `yaml:"cacheWrite"`  // of tokens written into a cache; 0 = as much as Input
	LongPrompt  LongPrompt `yaml:"longPrompt"`  // the prices of answers to a longer prompt
}

// LongPrompt is the prices of an answer to a prompt of more than Above tokens.
type LongPrompt struct {
	Above       int64   `yaml:"above"` // 0 = no such prices
	Input       float64 `yaml:"input"`
	Output      float64 `yaml:"output"`
	CachedInput float64 `yaml:"cachedInput"`
	CacheWrite  float64 `yaml:"cacheWrite"`
}

const million = 1e6

// Cost is what the usage of one answer costs at this price, in US dollars.
func (p Price) Cost(usage event.Usage) float64 {
	if l := p.LongPrompt; l.Above > 0 && usage.InputTokens > l.Above {
		p = Price{Input: l.Input, Output: l.Output, CachedInput: l.CachedInput, CacheWrite: l.CacheWrite}
	}
	read, written := float64(usage.CachedInputTokens), float64(usage.CacheWriteTokens)
	fresh := max(0, float64(usage.InputTokens)-read-written)
	return (fresh*p.Input + read*cmp.Or(p.CachedInput, p.Input) + written*cmp.Or(p.CacheWrite, p.Input) +
		float64(usage.OutputTokens)*p.Output) / million
}

// PricesOf is the date of the prices of well-known models.
const PricesOf = "2026-11-05"

// wellKnownModels have list prices, as of [PricesOf], and the windows that their providers name, so that costs show without a
// configuration. A file's entry replaces one. Cache writes are those for the shortest time.
func wellKnownModels() map[string]Model {
	long := func(p Price, above int64, input, output float64) Price {
		p.LongPrompt = LongPrompt{above, p.Input * input, p.Output * output, p.CachedInput * input, p.CacheWrite * input}
		return p
	}
	price := func(input, output, read, write float64) Price {
		return Price{Input: input, Output: output, CachedInput: read, CacheWrite: write}
	}
	const longGPT = 272_000 // from which on the newest models of OpenAI cost more
	return map[string]Model{
		"gpt-6.1-sol":       {long(price(2, 10, 0.1, 2.5), longGPT, 2, 1.5), 922_000},
		"gpt-6.1-terra":     {long(price(1, 5, 0.05, 1.25), longGPT, 2, 1.5), 922_000},
		"gpt-6-sol":         {long(price(2, 10, 0.2, 2.5), longGPT, 2, 1.5), 922_000},
		"gpt-6-luna":        {long(price(0.1, 0.5, 0.01, 0.125), longGPT, 2, 1.5), 922_000},
		"gpt-5.6-terra":     {price(2, 12, 0.2, 0), 272_000},
		"gpt-5.5":           {price(5, 30, 0.5, 0), 272_000},
		"gpt-5":             {price(1.25, 10, 0.125, 0), 272_000},
		"gpt-5-mini":        {price(0.25, 2, 0.025, 0), 272_000},
		"gpt-5-nano":        {price(0.05, 0.4, 0.005, 0), 272_000},
		"gpt-4.1":           {price(2, 8, 0.5, 0), 1_047_576},
		"gpt-4.1-mini":      {price(0.4, 1.6, 0.1, 0), 1_047_576},
		"gpt-4.1-nano":      {price(0.1, 0.4, 0.025, 0), 1_047_576},
		"gpt-4o":            {price(2.5, 10, 1.25, 0), 128_000},
		"gpt-4o-mini":       {price(0.15, 0.6, 0.075, 0), 128_000},
		"o3":                {price(2, 8, 0.5, 0), 200_000},
		"o4-mini":           {price(1.1, 4.4, 0.275, 0), 200_000},
		"claude-fable-5-1":  {price(10, 50, 0.25, 12.5), 1_000_000},
		"claude-fable-5":    {price(10, 50, 1, 12.5), 1_000_000},
		"claude-opus-5-5":   {price(4, 20, 0.2, 5), 1_000_000},
		"claude-opus-5":     {price(5, 25, 0.5, 6.25), 1_000_000},
		"claude-opus-4-8":   {price(5, 25, 0.5, 6.25), 200_000},
		"claude-opus-4-7":   {price(5, 25, 0.5, 6.25), 200_000},
		"claude-opus-4-6":   {price(5, 25, 0.5, 6.25), 200_000},
		"claude-opus-4-5":   {price(5, 25, 0.5, 6.25), 200_000},
		"claude-opus-4-1":   {price(15, 75, 1.5, 18.75), 200_000},
		"claude-sonnet-5-5": {price(2, 10, 0.1, 2.5), 1_000_000},
		"claude-sonnet-5":   {price(2, 10, 0.2, 2.5), 1_000_000},
		"claude-sonnet-4-6": {price(3, 15, 0.3, 3.75), 200_000},
		"claude-sonnet-4-5": {price(3, 15, 0.3, 3.75), 200_000},
		"claude-sonnet-4":   {price(3, 15, 0.3, 3.75), 200_000},
		"claude-haiku-5-5":  {long(price(0.1, 0.5, 0.01, 0.125), 100_000, 5, 5), 1_000_000},
		"claude-haiku-4-5":  {price(1, 5, 0.1, 1.25), 200_000},
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
