package agentserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/anthropic"
	"github.com/agentbus/agentbus/pkg/backend/openai"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	agentserver "github.com/agentbus/agentbus/services/agent-server"
)

// The health of an agent on a model says whether its provider would answer, and accepts the key.
func TestHealthTriesTheProvider(t *testing.T) {
	t.Parallel()
	models := map[string]func(url string) backend.Model{
		"OpenAI": func(url string) backend.Model {
			return openai.New(openai.Options{BaseURL: url + "/v1", APIKey: "bogus"})
		},
		"Anthropic": func(url string) backend.Model { return anthropic.New(anthropic.Options{BaseURL: url, APIKey: "bogus"}) },
	}
	for name, model := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			triesProvider(t, model)
		})
	}
}

func triesProvider(t *testing.T, model func(url string) backend.Model) {
	var status atomic.Int64
	status.Store(http.StatusOK)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(`{"data":[]}`))
	}))
	t.Cleanup(provider.Close)
	s := open(t, setup{change: func(s *agentserver.Settings) {
		s.Backend, s.Probe = backend.Stateless(model(provider.URL)), 10*time.Millisecond
	}})
	for _, tt := range []struct {
		answer       int
		key, healthy bool
		says         string
	}{
		{http.StatusUnauthorized, false, false, "did not accept the API key"},
		{http.StatusOK, true, true, ""},
		{http.StatusServiceUnavailable, true, false, "has a problem"},
		{http.StatusNotFound, true, true, ""}, // a compatible server without a list of models
	} {
		status.Store(int64(tt.answer))
		s.until("the provider is tried", func() bool {
			health, err := s.Health(t.Context())
			return err == nil && health.Healthy == tt.healthy && health.APIKeyValid == tt.key && strings.Contains(health.Error, tt.says)
		})
		info, err := s.Info(t.Context())
		if err != nil || (info.Status == remoteagent.Idle) != tt.healthy {
			t.Errorf("the provider answers %d: got %+v, %v", tt.answer, info, err)
		}
	}
}

func TestHealthReportsAnUnreachableProvider(t *testing.T) {
	t.Parallel()
	s := open(t, setup{change: func(s *agentserver.Settings) {
		s.Backend = backend.Stateless(anthropic.New(anthropic.Options{BaseURL: "http://127.0.0.1:1", APIKey: "k"}))
	}})
	s.until("the provider is tried", func() bool {
		health, err := s.Health(t.Context())
		return err == nil && !health.Healthy && health.APIKeyValid && strings.Contains(health.Error, "does not answer")
	})
}
