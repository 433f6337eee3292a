package aimock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/anthropic"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/openai"
	"github.com/agentbus/agentbus/pkg/tool"
)

// start gives the one mock that all tests of t share.
func start(t *testing.T) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // the first time, npm fetches the package
	defer cancel()
	server, err := Start(ctx, ".", "testdata/fixtures.json")
	if errors.Is(err, ErrMissing) && os.Getenv("AGENTBUS_REQUIRE_SERVERS") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func backends(s *Server) map[string]backend.Model {
	return map[string]backend.Model{
		"openai":    openai.New(openai.Options{BaseURL: s.URL + "/v1", APIKey: "mock", Retries: -1}),
		"anthropic": anthropic.New(anthropic.Options{BaseURL: s.URL, APIKey: "mock", Retries: -1}),
	}
}

func say(prompt string) backend.Turn {
	return backend.Turn{
		Model: "a-model", System: "Be brief.", MaxTokens: 1000, Thinking: 1024,
		Messages: []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: prompt}}}},
		Tools: []tool.Spec{{Name: "get_weather", Description: "Returns the weather.",
			Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`)}},
	}
}

func TestBackends(t *testing.T) {
	t.Parallel()
	server := start(t)
	for name, b := range backends(server) {
		t.Run(name, func(t *testing.T) {
			t.Run("keeps the contract", func(t *testing.T) {
				backendtest.Run(t, func(*testing.T) backendtest.Subject {
					return backendtest.Subject{
						Backend: backend.Stateless(b), Text: say("plain text"), Thinking: say("think first"), Call: say("one call"), Calls: say("two calls"),
						Retryable: say("too busy"), Final: say("bad request"), Endless: say("never end"),
						Result: "sunny, 21 degrees", After: "In Köln it is sunny.",
					}
				})
			})
			t.Run("brings what the fixtures hold", func(t *testing.T) { content(t, b) })
			t.Run("reports the failure", func(t *testing.T) { faults(t, b) })
		})
	}
}

func content(t *testing.T, b backend.Model) {
	tests := []struct{ prompt, text, thinking, calls, usage string }{
		{"plain text", "Hello from aimock, wörld 🌍!", "", "", "12/7"},
		{"think first", "It is 42.", "Six by seven.", "", "12/7"},
		{"one call", "Let me see.", "", `get_weather{"city":"Köln","unit":"celsius"}`, "30/9"},
		{"two calls", "", "", `get_weather{"city":"Köln"}get_weather{"city":"Bonn"}`, "30/18"},
	}
	for _, tt := range tests {
		t.Run(tt.prompt, func(t *testing.T) {
			t.Parallel()
			a, err := backendtest.Ask(t.Context(), b, say(tt.prompt))
			if err != nil {
				t.Fatal(err)
			}
			calls := ""
			for _, c := range a.Calls {
				calls += c.Name + c.Args
			}
			usage := fmt.Sprintf("%d/%d", a.Outcome.Usage.InputTokens, a.Outcome.Usage.OutputTokens)
			if a.Text != tt.text || a.Thinking != tt.thinking || calls != tt.calls || usage != tt.usage {
				t.Errorf("got %q, %q, %q, %q, want %q, %q, %q, %q",
					a.Text, a.Thinking, calls, usage, tt.text, tt.thinking, tt.calls, tt.usage)
			}
			if len(a.Chunks) < 4 {
				t.Errorf("got %d chunks, want the answer in pieces", len(a.Chunks))
			}
		})
	}
}

func faults(t *testing.T, b backend.Model) {
	tests := []struct {
		prompt    string
		retryable bool
		after     time.Duration
		want      string
		begins    bool // the answer begins before it fails
	}{
		{"slow down", true, time.Second, "limits the rate", false},
		{"too busy", true, 0, "overloaded", false},
		{"break off", true, 0, "broke off", true},
		{"hang up", true, 0, "does not answer", false},
		{"garble", true, 0, "cannot be read", false},
		{"bad request", false, 0, "temperature: out of range", false},
		{"bad key", false, 0, "did not accept the API key", false},
	}
	for _, tt := range tests {
		t.Run(tt.prompt, func(t *testing.T) {
			t.Parallel()
			a, err := backendtest.Ask(t.Context(), b, say(tt.prompt))
			f, ok := errors.AsType[*apierr.Error](err)
			if !ok || f.Code != apierr.AgentError || f.Retryable != tt.retryable || f.RetryAfter != tt.after {
				t.Fatalf("got %#v, want %s, retryable %t after %s", err, apierr.AgentError, tt.retryable, tt.after)
			}
			if !strings.Contains(f.Message, tt.want) || strings.Contains(f.Error(), "sk-wrong") {
				t.Errorf("got message %q, want it to contain %q", f.Message, tt.want)
			}
			if begins := a.Text != ""; begins != tt.begins {
				t.Errorf("got text %q before the failure, want some: %t", a.Text, tt.begins)
			}
		})
	}
}
