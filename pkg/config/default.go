package config

import "regexp"

// The models of the agents that [Default] adds, when the environment names none.
const (
	DefaultOpenAIModel    = "gpt-4.1-mini"
	DefaultAnthropicModel = "claude-sonnet-4-5"
)

// Default is the configuration without a file: the agent demo, which needs no network, and the agents openai and
// anthropic where getenv (usually os.Getenv) gives a key or the address of a provider.
func Default(getenv func(string) string) Config {
	tools := []string{"clock", "calculator", "http_get", "echo"}
	c := Config{
		Agents: map[string]Agent{"demo": {
			Description: "an offline stand-in that runs the script in its prompt; no model",
			Backend:     "scripted",
			Tools:       tools,
		}},
		Models: wellKnownPrices(),
	}
	if getenv("OPENAI_API_KEY") != "" || getenv("OPENAI_BASE_URL") != "" {
		c.Agents["openai"] = Agent{
			Description: "a model behind the OpenAI chat completions API",
			Backend:     "openai",
			Model:       or(getenv("OPENAI_MODEL"), DefaultOpenAIModel),
			Tools:       tools,
		}
	}
	if getenv("ANTHROPIC_API_KEY") != "" || getenv("ANTHROPIC_BASE_URL") != "" {
		c.Agents["anthropic"] = Agent{
			Description: "a model behind the Anthropic messages API",
			Backend:     "anthropic",
			Model:       or(getenv("ANTHROPIC_MODEL"), DefaultAnthropicModel),
			Tools:       tools,
		}
	}
	return c
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// wellKnownPrices are list prices, so that costs show without a configuration. A file's entry replaces them.
func wellKnownPrices() map[string]Model {
	return map[string]Model{
		"gpt-5":             {Price{Input: 1.25, Output: 10, CachedInput: 0.125}},
		"gpt-5-mini":        {Price{Input: 0.25, Output: 2, CachedInput: 0.025}},
		"gpt-5-nano":        {Price{Input: 0.05, Output: 0.4, CachedInput: 0.005}},
		"gpt-4.1":           {Price{Input: 2, Output: 8, CachedInput: 0.5}},
		"gpt-4.1-mini":      {Price{Input: 0.4, Output: 1.6, CachedInput: 0.1}},
		"gpt-4.1-nano":      {Price{Input: 0.1, Output: 0.4, CachedInput: 0.025}},
		"gpt-4o":            {Price{Input: 2.5, Output: 10, CachedInput: 1.25}},
		"gpt-4o-mini":       {Price{Input: 0.15, Output: 0.6, CachedInput: 0.075}},
		"o3":                {Price{Input: 2, Output: 8, CachedInput: 0.5}},
		"o4-mini":           {Price{Input: 1.1, Output: 4.4, CachedInput: 0.275}},
		"claude-opus-4-5":   {Price{Input: 5, Output: 25, CachedInput: 0.5}},
		"claude-opus-4-1":   {Price{Input: 15, Output: 75, CachedInput: 1.5}},
		"claude-sonnet-4-5": {Price{Input: 3, Output: 15, CachedInput: 0.3}},
		"claude-sonnet-4":   {Price{Input: 3, Output: 15, CachedInput: 0.3}},
		"claude-haiku-4-5":  {Price{Input: 1, Output: 5, CachedInput: 0.1}},
	}
}

// dated matches the date that providers add to the name of a model: gpt-4.1-mini-2025-04-14, claude-…-20250929.
var dated = regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|\d{8}|latest)$`)

// Price returns what model costs. A dated name that has no price of its own has that of the name without the date.
func (c Config) Price(model string) (Price, bool) {
	m, ok := c.Models[model]
	if !ok {
		m, ok = c.Models[dated.ReplaceAllString(model, "")]
	}
	return m.Price, ok
}
