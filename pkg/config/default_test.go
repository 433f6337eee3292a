package config_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
)

func environ(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestDefault(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		env    map[string]string
		agents []string
		model  map[string]string
	}{
		"nothing set":          {nil, nil, nil},
		"a model alone":        {map[string]string{"OPENAI_MODEL": "x"}, nil, nil},
		"an OpenAI key":        {map[string]string{"OPENAI_API_KEY": "k"}, []string{"openai"}, map[string]string{"openai": config.DefaultOpenAIModel}},
		"an OpenAI server":     {map[string]string{"OPENAI_BASE_URL": "http://x", "OPENAI_MODEL": "qwen"}, []string{"openai"}, map[string]string{"openai": "qwen"}},
		"an Anthropic key":     {map[string]string{"ANTHROPIC_API_KEY": "k"}, []string{"anthropic"}, map[string]string{"anthropic": config.DefaultAnthropicModel}},
		"an Anthropic server":  {map[string]string{"ANTHROPIC_BASE_URL": "http://x", "ANTHROPIC_MODEL": "m"}, []string{"anthropic"}, map[string]string{"anthropic": "m"}},
		"keys of both at once": {map[string]string{"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, []string{"anthropic", "openai"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config.Default(environ(test.env))
			if got := slices.Sorted(maps.Keys(c.Agents)); !slices.Equal(got, test.agents) {
				t.Errorf("agents: got %v, want %v", got, test.agents)
			}
			for agent, model := range test.model {
				if got := c.Agents[agent].Model; got != model {
					t.Errorf("model of %s: got %q, want %q", agent, got, model)
				}
				if _, ok := c.Price(c.Agents[agent].Model); !ok && test.env["OPENAI_BASE_URL"]+test.env["ANTHROPIC_BASE_URL"] == "" {
					t.Errorf("the default model %q has no price", c.Agents[agent].Model)
				}
			}
		})
	}
}

func TestDefaultAgentsAllowThePricedModelsOfTheirProvider(t *testing.T) {
	t.Parallel()
	c := config.Default(environ(map[string]string{"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "OPENAI_MODEL": "own"}))
	tests := []struct {
		agent, model string
		allowed      bool
	}{
		{"openai", "own", true}, {"openai", "gpt-4o", true}, {"openai", "o3", true}, {"openai", "claude-sonnet-4-5", false},
		{"openai", "gpt-5-pro-super-expensive", false}, {"openai", "*", false},
		{"anthropic", "claude-sonnet-4-5", true}, {"anthropic", "claude-opus-4-1", true}, {"anthropic", "gpt-4o", false},
	}
	for _, test := range tests {
		if err := c.Agents[test.agent].CheckModel("model", test.model); (err == nil) != test.allowed {
			t.Errorf("%s, %s: got %v, want it allowed: %v", test.agent, test.model, err, test.allowed)
		}
	}
}

// TestTheDemoAgentIsOffUnlessItIsConfigured covers what `dev` does (a base with Demo) and what services do (a file).
func TestTheDemoAgentIsOffUnlessItIsConfigured(t *testing.T) {
	t.Parallel()
	base := config.Default(environ(nil))
	dev := base.With(config.Config{Demo: true})
	tests := map[string]struct {
		base config.Config
		file string
		want string // description of the agent; "" = there is none
	}{
		"a service":                {base, "models: {}", ""},
		"a service, configured":    {base, "demo: true", config.Demo().Description},
		"a service, switched off":  {base, "demo: false", ""},
		"a service, its own":       {base, "demo: true\nagents: {demo: {backend: scripted, description: own}}", "own"},
		"a service, without demo":  {base, "agents: {demo: {backend: scripted, description: own}}", "own"},
		"development":              {dev, "models: {}", config.Demo().Description},
		"development, its own":     {dev, "agents: {demo: {backend: scripted, description: own}}", "own"},
		"called by another, alone": {base, "demo: true\nagents: {a: {backend: scripted, agents: [demo]}}", config.Demo().Description},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "config.yaml")
			write(t, path, test.file)
			got, err := config.Load(path, test.base, config.Known{})
			if err != nil {
				t.Fatal(err)
			}
			demo, ok := got.Agents["demo"]
			if ok != (test.want != "") || demo.Description != test.want || ok && demo.Backend != "scripted" {
				t.Errorf("got %+v, want description %q", demo, test.want)
			}
		})
	}
}

func TestLoadAddsToItsBase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	write(t, path, "agents:\n  demo: {backend: scripted, description: mine}\n  other: {backend: scripted}\n")
	base := config.Default(environ(map[string]string{"OPENAI_API_KEY": "k"})).With(config.Config{Demo: true})
	base.Gateway.MaxBody = 7
	got, err := config.Load(path, base, known)
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(got.Agents)); !slices.Equal(names, []string{"demo", "openai", "other"}) {
		t.Errorf("agents: got %v", names)
	}
	if demo := got.Agents["demo"]; demo.Description != "mine" || demo.Tools != nil {
		t.Errorf("the file's demo does not replace the default one: %+v", demo)
	}
	if got.Gateway.MaxBody != 7 || len(got.Models) != len(base.Models) {
		t.Errorf("what the file does not mention is gone: %+v", got)
	}
	if base.Agents["demo"].Description == "mine" {
		t.Error("Load changed its base")
	}
}

func TestAnyLineAboutTheGatewayCounts(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"cors: [\"*\"]", "maxBody: 7", "rateLimit: {requests: 1, per: 1s}", "heartbeat: 1s", "streamTimeout: 1s", "admissionTimeout: 1s",
		"limits: {streams: 1}", "quotas: {keyRequests: 1}", "sessions: {exclusive: true}", "webhooks: {plainHTTP: true}", "webhooks: {receivers: {a: {url: https://a.example, signingKeyEnv: K}}}",
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		write(t, path, "gateway: {"+line+"}\n")
		got, err := config.Load(path, config.Config{}, known)
		if err != nil || reflect.DeepEqual(got.Gateway, config.Gateway{}) {
			t.Errorf("%s: got %+v, %v", line, got.Gateway, err)
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	write(t, path, "agents:\n  a: {}\n")
	_, err := config.Load(path, config.Config{}, known)
	if err == nil || !strings.HasPrefix(err.Error(), path+":2:3: agents.a: ") {
		t.Errorf("got %v", err)
	}
	_, err = config.Load(path+".not", config.Config{}, known)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is no such file", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
