package gateway_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/services/gateway"
)

// asking is a request that names a model.
func asking(model string) string {
	return `{"messages":[{"role":"user","content":"hi"}],"context":{"model":` + strconv.Quote(model) + `}}`
}

func withModels(d *gateway.Deps) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = "model-" + strconv.Itoa(i)
	}
	d.Config.Agents = map[string]config.Agent{
		"demo": {Backend: "scripted"}, "own": {Backend: "openai", Model: "small"},
		"two": {Backend: "openai", Model: "small", Models: []string{"large"}},
		"any": {Backend: "openai", Model: "small", Models: []string{config.AnyModel}}, "many": {Backend: "openai", Models: many},
	}
}

func TestAModelThatTheAgentDoesNotAllowIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t, withModels)
	tests := []struct {
		agent, model string
		says         string // "" = it is accepted
	}{
		{"demo", "", ""},
		{"demo", "m", "this agent allows no model by name"},
		{"own", "small", ""},
		{"own", "gpt-5-pro-super-expensive", `it allows \"small\"`},
		{"own", "Small", `it allows \"small\"`},
		{"two", "small", ""},
		{"two", "large", ""},
		{"two", "larger", `it allows \"small\", \"large\"`},
		{"two", strings.Repeat("x", 100<<10), "has at most 256"},
		{"any", "whatever", ""},
		{"any", strings.Repeat("x", config.MaxModel), ""},
		{"any", strings.Repeat("x", config.MaxModel+1), "has at most 256"},
		{"many", "model-999", ""},
		{"many", "model-1000", "and 990 more"},
	}
	for _, test := range tests {
		for _, route := range []string{"requests", "stream"} {
			if test.says == "" && route == "stream" {
				continue // its answer would wait for a runner
			}
			a := b.post("/v1/agents/"+test.agent+"/"+route, asking(test.model))
			if test.says == "" {
				if a.status != http.StatusAccepted {
					t.Errorf("%s, %.40s: got %d %s", test.agent, test.model, a.status, a.body)
				}
				continue
			}
			if a.status != http.StatusBadRequest || a.failure(t).Code != apierr.InvalidMessageFormat ||
				!strings.Contains(a.body, test.says) || len(a.body) > 1500 {
				t.Errorf("%s of %s, %.40s: got %d %.600s, want 400 and %q", route, test.agent, test.model, a.status, a.body, test.says)
				break // the stream would wait for a runner
			}
		}
	}
}

func TestAFollowUpNamesAnAllowedModel(t *testing.T) {
	t.Parallel()
	b := start(t, withModels)
	made := b.post("/v1/agents/two/requests", asking("large"), "Idempotency-Key", "k")
	path := "/v1/requests/" + made.header.Get("X-Request-Id") + "/follow-up"
	if a := b.post(path, asking("other")); a.status != http.StatusBadRequest || !strings.Contains(a.body, "does not allow") {
		t.Errorf("another model: got %d %s", a.status, a.body)
	}
	if a := b.post(path, asking("small")); a.status != http.StatusAccepted {
		t.Errorf("the agent's own: got %d %s", a.status, a.body)
	}
}

// TestTheModelOfARemoteAgentIsCheckedByItsServer sends models that the agent-server may allow: the gateway does not have its list.
func TestTheModelOfARemoteAgentIsCheckedByItsServer(t *testing.T) {
	t.Parallel()
	b := start(t, withModels)
	if err := b.bus.PutAgent(t.Context(), bus.AgentRecord{ID: "far", Tenant: "default", Name: "Far", Model: "theirs", Online: true}); err != nil {
		t.Fatal(err)
	}
	b.eventually("the remote agent is listed", func() bool { return strings.Contains(b.get("/v1/agents").body, `"far"`) })
	for _, model := range []string{"other", "theirs"} {
		if a := b.post("/v1/agents/far/requests", asking(model)); a.status != http.StatusAccepted {
			t.Errorf("model %s: got %d %s, want 202", model, a.status, a.body)
		}
	}
}

func TestModelsOfSessionsAreThoseThatAgentsAllow(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		withModels(d)
		delete(d.Config.Agents, "many")
		delete(d.Config.Agents, "any")
	})
	if a := b.get("/api/v1/models"); !strings.Contains(a.body, `"id":"large"`) || strings.Count(a.body, `"id":"small"`) != 1 {
		t.Errorf("the models: got %d %s", a.status, a.body)
	}
	for model, status := range map[string]int{"large": 200, "small": 200, "other": 400, strings.Repeat("x", 100<<10): 400} {
		body := `{"sessionId":"` + b.session() + `","model":{"provider":"openai","id":"` + model + `"}}`
		if a := b.post("/api/v1/sessions/model", body); a.status != status || status == 400 && !strings.Contains(a.body, "Invalid model configuration") {
			t.Errorf("%.40s: got %d %s, want %d", model, a.status, a.body, status)
		}
	}
}
