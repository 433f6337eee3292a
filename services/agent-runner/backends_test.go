package agentrunner_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/catalog"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/tool"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
)

func TestBackendsFindTheirServerAndKey(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"openai", "anthropic"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := make(chan string, 8)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				keys <- r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
				_, _ = io.Copy(io.Discard, r.Body)
				http.Error(w, "{}", http.StatusUnauthorized)
			}))
			defer server.Close()
			variables := map[string]string{
				strings.ToUpper(name) + "_BASE_URL": server.URL, strings.ToUpper(name) + "_API_KEY": "from-env", "OTHER": "from-other",
			}
			backends, err := agentrunner.Backends(config.Config{Agents: map[string]config.Agent{
				"plain": {Backend: name}, "own": {Backend: name, APIKeyEnv: "OTHER"},
			}}, func(v string) string { return variables[v] }, nil)
			if err != nil {
				t.Fatal(err)
			}
			for agent, key := range map[string]string{"plain": "from-env", "own": "from-other"} {
				session, err := backends[agent].Start(t.Context(), backend.Start{})
				if err != nil {
					t.Fatal(err)
				}
				_, err = session.Send(t.Context(), backend.Turn{
					Model: "m", Messages: []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "hi"}}}},
				}, func(backend.Chunk) error { return nil })
				if err == nil {
					t.Error("a refused key went unnoticed")
				}
				if got := <-keys; !strings.HasSuffix(got, key) {
					t.Errorf("%s sent the key %q", agent, got)
				}
			}
		})
	}
}

func TestNewRefusesWhatCannotRun(t *testing.T) {
	t.Parallel()
	if want := []string{"a2a", "acp", "agui", "ai-sdk", "anthropic", "claude-code", "cli", "codex", "http", "langgraph", "openai", "openai-responses", "opencode", "remote", "scripted"}; !slices.Equal(catalog.Names(), want) {
		t.Errorf("the backends are %v, want %v", catalog.Names(), want)
	}
	tests := []struct {
		name, says string
		agent      config.Agent
	}{
		{"an unknown backend", "there are a2a, acp, agui, ai-sdk, anthropic, claude-code, cli, codex, http, langgraph, openai, openai-responses, opencode, remote, scripted", config.Agent{Backend: "telepathy"}},
		{"an unknown tool", `no tool "hammer"`, config.Agent{Backend: "scripted", Tools: []string{"hammer"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := agentrunner.New(agentrunner.Deps{
				Config: config.Config{Agents: map[string]config.Agent{"a": tt.agent}}, Specs: map[string]tool.Spec{},
			})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}
