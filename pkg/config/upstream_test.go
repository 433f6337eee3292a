package config_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
)

func TestAgentsBehindHTTP(t *testing.T) {
	t.Parallel()
	known := config.Known{Backends: []string{"scripted", "openai", "http", "agui", "ai-sdk", "langgraph", "a2a", "acp"}}
	for _, tt := range []struct {
		name, agent, says string
	}{
		{"an agent of the contract", "{backend: http, url: https://a.example/run, quiet: 1m, headers: {X-A: b}, query: {c: d}, signingKeyEnv: KEY, apiKeyEnv: K}", ""},
		{"options of the model", "{backend: http, url: https://a.example/run, options: {temperature: 0.2}}", ""},
		{"an agent of AG-UI", "{backend: agui, url: https://a.example/run, send: new}", ""},
		{"a route of the AI SDK", "{backend: ai-sdk, url: https://a.example/api/chat, send: new, apiKeyEnv: K}", ""},
		{"an agent of A2A", "{backend: a2a, url: https://a.example/agents/b, apiKeyEnv: K}", ""},
		{"new messages alone for A2A", "{backend: a2a, url: https://a.example/run, send: new}", "agents.a.send: is not for backend a2a"},
		{"an unknown way to send", "{backend: agui, url: https://a.example/run, send: some}", "agents.a.send: unknown value"},
		{"new messages alone for the contract", "{backend: http, url: https://a.example/run, send: new}", "agents.a.send: is not for backend http"},
		{"an assistant of LangGraph", "{backend: langgraph, url: https://a.example, assistant: agent, apiKeyEnv: K}", ""},
		{"LangGraph without an assistant", "{backend: langgraph, url: https://a.example}", "agents.a: has no assistant; add the id"},
		{"an assistant of another backend", "{backend: agui, url: https://a.example, assistant: agent}", "agents.a.assistant: is only for backend: langgraph"},
		{"new messages alone for LangGraph", "{backend: langgraph, url: https://a.example, assistant: a, send: new}", "agents.a.send: is not for backend langgraph"},
		{"options of the model for AG-UI", "{backend: agui, url: https://a.example/run, options: {temperature: 0.2}}", "agents.a.options: backend agui has no such setting"},
		{"no address", "{backend: http}", "agents.a: has no url; add the address of the agent"},
		{"a name in place of an address", "{backend: http, url: a.example}", `agents.a.url: "a.example" is not the address of an agent`},
		{"a password in the address", "{backend: http, url: https://u:p@a.example/}", "without a user"},
		{"the address of a provider", "{backend: http, url: https://a.example, baseURL: https://b.example}", "agents.a.baseURL: is the address of a model's provider; write url"},
		{"an address for a model", "{backend: openai, model: m, url: https://a.example}", "agents.a.url: is for the backends a2a, agui, ai-sdk, http, langgraph"},
		{"a time for a program", "{backend: acp, workspace: /p, cli: {command: x}, quiet: 1m}", "agents.a.quiet: is for the backends a2a, agui, ai-sdk, http, langgraph"},
		{"a time below zero", "{backend: http, url: https://a.example, quiet: -1s}", "agents.a.quiet: must not be negative"},
		{"a key in place of its name", "{backend: http, url: https://a.example, signingKeyEnv: whsec_abc}", "is the name of an environment variable, never the key itself"},
		{"a signing key of another backend", "{backend: openai, model: m, signingKeyEnv: KEY}", "agents.a.signingKeyEnv: is only for backend: http"},
		{"a setting of models", "{backend: http, url: https://a.example, fallback: [m]}", "agents.a.fallback: backend http has no such setting"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse([]byte("agents:\n  a: "+tt.agent+"\n"), known)
			if tt.says == "" && err != nil {
				t.Errorf("it is refused: %v", err)
			}
			if tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}
