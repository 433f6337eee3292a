package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub/internal/mcp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// desk is a hub with one agent, which has finished every task that it was given.
type desk struct{ assigned chan hubapi.Assignment }

func (d desk) AssignTask(_ context.Context, a hubapi.Assignment) (hubapi.Task, error) {
	d.assigned <- a
	if a.AgentID != "home-pc-01" {
		return hubapi.Task{}, apierr.New(apierr.AgentNotFound, "there is no agent %q", a.AgentID)
	}
	return hubapi.Task{TaskID: "task_1", SessionID: "s1", AgentID: a.AgentID, AgentName: "Home PC", Status: remoteagent.Running}, nil
}

func (d desk) CheckStatus(ctx context.Context, r hubapi.TaskRef) (hubapi.Task, error) {
	return d.GetResult(ctx, r)
}

func (d desk) GetResult(_ context.Context, r hubapi.TaskRef) (hubapi.Task, error) {
	return hubapi.Task{TaskID: r.TaskID, AgentID: r.AgentID, AgentName: "Home PC", Status: remoteagent.Completed, Result: "all built"}, nil
}

func (d desk) CancelTask(_ context.Context, r hubapi.TaskRef) (hubapi.Cancelled, error) {
	return hubapi.Cancelled{TaskID: r.TaskID, Status: remoteagent.Cancelled, Message: "Task cancelled by orchestrator"}, nil
}

func (d desk) AnswerTask(_ context.Context, a hubapi.Answer) (hubapi.Task, error) {
	return hubapi.Task{TaskID: a.TaskID, AgentID: a.AgentID, AgentName: "Home PC", Status: remoteagent.Running}, nil
}

func (d desk) ListAgents(_ context.Context, q hubapi.AgentsQuery) (hubapi.AgentList, error) {
	return hubapi.AgentList{Agents: []hubapi.Agent{{ID: "home-pc-01", Name: "Home PC of " + q.Tenant, IsOnline: true}}}, nil
}

// bearer sends a key with every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// principals knows three keys.
func principals(r *http.Request) (auth.Principal, error) {
	known := map[string]auth.Principal{
		"Bearer all": {Tenant: "acme", Subject: "ada", KeyID: "ak_1"}, "Bearer reads": {Tenant: "acme", Subject: "bob", KeyID: "ak_2", Scopes: []auth.Scope{auth.ScopeRead}},
		"Bearer other": {Tenant: "umbrella", Subject: "eve", KeyID: "ak_3"},
	}
	if p, ok := known[r.Header.Get("Authorization")]; ok {
		return p, nil
	}
	return auth.Principal{}, apierr.New(apierr.AuthFailed, "the API key is not known")
}

func serve(t *testing.T, o mcp.Options) (*httptest.Server, chan hubapi.Assignment) {
	t.Helper()
	assigned := make(chan hubapi.Assignment, 8)
	o.Door = desk{assigned}
	server := httptest.NewServer(mcp.New(o))
	t.Cleanup(server.Close)
	return server, assigned
}

func connect(t *testing.T, server *httptest.Server, key string) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: server.URL, HTTPClient: &http.Client{Transport: bearer(key)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func call(t *testing.T, s *sdk.ClientSession, name string, args map[string]any) (text string, failed bool, r *sdk.CallToolResult) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	content, ok := r.Content[0].(*sdk.TextContent)
	if !ok {
		t.Fatalf("got %T, want a text", r.Content[0])
	}
	return content.Text, r.IsError, r
}

func TestTheToolsOfTheHubAreListed(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, mcp.Options{})
	listed, err := connect(t, server, "").ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
		schema, _ := tool.InputSchema.(map[string]any)
		if tool.Name != "assign_task" {
			continue
		}
		properties, _ := schema["properties"].(map[string]any)
		turns, _ := properties["max_turns"].(map[string]any)
		budget, _ := properties["max_budget_usd"].(map[string]any)
		if turns["default"] != 50.0 || budget["default"] != 5.0 {
			t.Errorf("defaults are %v turns and %v dollars, want 50 and 5.00", turns["default"], budget["default"])
		}
	}
	if got, want := strings.Join(names, " "), "answer_task assign_task cancel_task check_status get_result list_agents"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	server, assigned := serve(t, mcp.Options{Principal: principals})
	all, reads := connect(t, server, "all"), connect(t, server, "reads")
	ref := map[string]any{"agent_id": "home-pc-01", "task_id": "task_1"}
	tests := []struct {
		name, tool string
		session    *sdk.ClientSession
		args       map[string]any
		want       string
		fails      bool
	}{
		{"a task is assigned", "assign_task", all, map[string]any{"agent_id": "home-pc-01", "task": "build"}, "taskId task_1", false},
		{"an agent that there is not is said", "assign_task", all, map[string]any{"agent_id": "x", "task": "build"}, `there is no agent "x"`, true},
		{"a missing argument is said", "check_status", all, map[string]any{"agent_id": "x"}, "task_id", true},
		{"a result is returned", "get_result", all, ref, "all built", false},
		{"a task is cancelled", "cancel_task", all, ref, "Task cancelled by orchestrator", false},
		{"agents are those of the key's tenant", "list_agents", all, nil, "Home PC of acme", false},
		{"and of another's", "list_agents", connect(t, server, "other"), nil, "Home PC of umbrella", false},
		{"a key that reads may ask", "check_status", reads, ref, "all built", false},
		{"and may not start anything", "assign_task", reads, map[string]any{"agent_id": "home-pc-01", "task": "build"}, `lacks the scope "run"`, true},
	}
	for _, tt := range tests {
		text, failed, r := call(t, tt.session, tt.tool, tt.args)
		if failed != tt.fails || !strings.Contains(text, tt.want) {
			t.Errorf("%s: got %q, %v, want %q in it", tt.name, text, failed, tt.want)
		}
		if _, structured := r.StructuredContent.(map[string]any); structured == failed {
			t.Errorf("%s: got structured content %v", tt.name, r.StructuredContent)
		}
	}
	if a := <-assigned; a.Tenant != "acme" || a.Task != "build" {
		t.Errorf("got %+v", a)
	}
}

func TestWithoutAKeyThereIsNothing(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, mcp.Options{Principal: principals})
	for _, key := range []string{"", "Bearer wrong"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			r.Header.Set("Authorization", key)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("key %q: got %d, want 401", key, response.StatusCode)
		}
	}
}

func TestAMessageThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, mcp.Options{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(strings.Repeat(" ", 2<<20)))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d, want 413", response.StatusCode)
	}
}
