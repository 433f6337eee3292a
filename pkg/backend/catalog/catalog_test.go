package catalog

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/config"
)

func nothing(string) string { return "" }

func TestEachBackendReportsItsTransport(t *testing.T) {
	t.Parallel()
	want := map[string]backend.Transport{ // a backend that is not listed is a model
		"anthropic": backend.LLM, "openai": backend.LLM, "openai-responses": backend.LLM, "scripted": backend.LLM,
		config.BackendClaude: backend.LocalAgent, config.BackendCLI: backend.LocalAgent, config.BackendCodex: backend.LocalAgent,
		config.BackendOpenCode: backend.LocalAgent, config.BackendACP: backend.ACP, config.BackendHTTP: backend.Remote, config.BackendAGUI: backend.Remote,
		config.BackendAISDK: backend.Remote, config.BackendA2A: backend.Remote, config.BackendLangGraph: backend.Remote,
	}
	for _, name := range Names() {
		if name == config.BackendRemote {
			continue // the runner opens it, which has the hub
		}
		b, err := Open(config.Agent{Backend: name}, nothing, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := backend.TransportOf(b); got != cmp.Or(want[name], backend.LLM) {
			t.Errorf("%s: got the transport %q, want %q", name, got, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("got %v, want %v among them", Names(), want)
	}
}

func TestABackendThatIsNotThereIsRefusedWithThoseThatAre(t *testing.T) {
	t.Parallel()
	_, err := Open(config.Agent{Backend: "oracle"}, nothing, nil)
	if err == nil || !strings.Contains(err.Error(), `no backend "oracle"`) || !strings.Contains(err.Error(), strings.Join(Names(), ", ")) {
		t.Errorf("got %v", err)
	}
}

func TestProgramRunsWithAgentConfiguration(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "program")
	// A child that another test forks meanwhile would keep the script open for writing, and it could not be executed (ETXTBSY).
	syscall.ForkLock.RLock()
	err := os.WriteFile(script, []byte("#!/bin/sh\necho \"{\\\"say\\\":\\\"$WORD $* $(basename \"$PWD\")\\\",\\\"id\\\":\\\"s1\\\"}\"\n"), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(config.Agent{Backend: config.BackendCLI, Workspace: filepath.Join(t.TempDir(), "{thread}"), CLI: config.CLI{
		Command: script, Args: []string{"--model={model}"}, Env: map[string]string{"WORD": "hello"}, UnitCost: 0.5,
		SessionArgs: []string{"--session={session}"}, Output: "ndjson",
		Fields: config.Fields{Text: []string{"say"}, Session: []string{"id"}},
	}}, nothing, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := b.Start(t.Context(), backend.Start{ThreadID: "thr_1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hello --model=m thr_1", "hello --model=m --session=s1 thr_1"} {
		said := ""
		turn := backend.Turn{Model: "m", Messages: []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "hi"}}}}}
		outcome, err := session.Send(t.Context(), turn, func(c backend.Chunk) error {
			if text, ok := c.(backend.TextDelta); ok {
				said += string(text)
			}
			return nil
		})
		if err != nil || strings.TrimSpace(said) != want {
			t.Errorf("got %q, %v, want %q", said, err, want)
		}
		if estimator, ok := b.(backend.CostEstimator); !ok || estimator.EstimateCost(outcome) != 0.5 {
			t.Errorf("a turn does not count as what the agent says")
		}
	}
}

func TestHeadersAndQueriesHaveTheValuesOfVariables(t *testing.T) {
	t.Parallel()
	var key, team string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, team = r.Header.Get("Api-Key"), r.URL.Query().Get("team")
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(server.Close)
	getenv := func(name string) string { return map[string]string{"AZURE_KEY": "k-1", "TEAM": "red"}[name] }
	for _, name := range []string{config.BackendOpenAI, config.BackendResponses, config.BackendAnthropic} {
		key, team = "", ""
		a := config.Agent{Backend: name, BaseURL: server.URL, Headers: map[string]string{"api-key": "${AZURE_KEY}"}, Query: map[string]string{"team": "${TEAM}"}}
		b, err := Open(a, getenv, nil)
		if err != nil {
			t.Fatal(err)
		}
		session, err := b.Start(t.Context(), backend.Start{})
		if err != nil {
			t.Fatal(err)
		}
		turn := backend.Turn{Model: "m", Messages: []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "hi"}}}}}
		if _, err := session.Send(t.Context(), turn, func(backend.Chunk) error { return nil }); err == nil {
			t.Error("got an answer, want the refusal")
		}
		if key != "k-1" || team != "red" {
			t.Errorf("%s: got key %q and team %q", name, key, team)
		}
		if _, err := Open(a, nothing, nil); err == nil || !strings.Contains(err.Error(), "needs the variable AZURE_KEY") {
			t.Errorf("%s: got %v, want an error that names the variable", name, err)
		}
	}
}
