package config

// The models of the agents that [Default] adds, when the environment names none.
const (
	DefaultOpenAIModel    = "gpt-4.1-mini"
	DefaultAnthropicModel = "claude-sonnet-4-5"
)

// builtinTools are what the agents may call that need no configuration.
func builtinTools() []string { return []string{"clock", "calculator", "http_get", "echo"} }

// Demo is the agent demo, which needs no network. A caller decides how long a run lasts and how much it
// stores, so only `agentbus dev` and a file that says `demo: true` have it.
func Demo() Agent {
	return Agent{
		Description: "an offline agent that runs the script in its prompt; no model",
		Backend:     "scripted",
		Tools:       builtinTools(),
		Planning:    true,
		FinalAnswer: true,
	}
}

// Default is the configuration without a file: the agents openai and anthropic where getenv (usually os.Getenv) gives a
// key or the address of a provider. A request may name any well-known model of the provider for them.
func Default(getenv func(string) string) Config {
	tools := builtinTools()
	c := Config{Agents: map[string]Agent{}, Models: wellKnownModels()}
	if getenv("OPENAI_API_KEY") != "" || getenv("OPENAI_BASE_URL") != "" {
		c.Agents["openai"] = Agent{
			Description: "a model with the OpenAI chat completions API",
			Backend:     "openai",
			Model:       or(getenv("OPENAI_MODEL"), DefaultOpenAIModel),
			Models:      wellKnownModelsOf(false),
			Tools:       tools,
		}
	}
	if getenv("ANTHROPIC_API_KEY") != "" || getenv("ANTHROPIC_BASE_URL") != "" {
		c.Agents["anthropic"] = Agent{
			Description: "a model with the Anthropic messages API",
			Backend:     "anthropic",
			Model:       or(getenv("ANTHROPIC_MODEL"), DefaultAnthropicModel),
			Models:      wellKnownModelsOf(true),
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
