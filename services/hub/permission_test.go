package hub_test

import (
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// Work that is given through the hub sets what the agent may do. What it does not set, the registration does.
func TestAnAssignmentSetsWhatItsAgentMayDo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		defaults map[string]any // of the agent
		task     map[string]any
		want     remoteagent.Assignment
	}{
		{"nothing is set", nil, nil, remoteagent.Assignment{}},
		{"the task sets all", map[string]any{"defaultPermissionMode": "default", "defaultModel": "small"},
			map[string]any{"permissionMode": "acceptEdits", "allowedTools": []string{"Read", "Edit"}, "systemPrompt": "be brief", "model": "large"},
			remoteagent.Assignment{PermissionMode: remoteagent.PermitEdits, AllowedTools: []string{"Read", "Edit"}, SystemPrompt: "be brief", Model: "large"}},
		{"the agent's defaults", map[string]any{"defaultPermissionMode": "acceptEdits", "defaultAllowedTools": []string{"Read"},
			"defaultSystemPrompt": "be kind", "defaultModel": "small"}, nil,
			remoteagent.Assignment{PermissionMode: remoteagent.PermitEdits, AllowedTools: []string{"Read"}, SystemPrompt: "be kind", Model: "small"}},
		{"no tools at all", map[string]any{"defaultAllowedTools": []string{"Read"}}, map[string]any{"allowedTools": []string{}},
			remoteagent.Assignment{AllowedTools: []string{}}},
		{"no tools by default", map[string]any{"defaultAllowedTools": []string{}}, nil, remoteagent.Assignment{AllowedTools: []string{}}},
		{"null is the agent's default", map[string]any{"defaultAllowedTools": []string{"Read"}}, map[string]any{"allowedTools": nil},
			remoteagent.Assignment{AllowedTools: []string{"Read"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, m := memory(t), newMachine(t)
			h.register(m)
			if status, text := h.ask(http.MethodPatch, "/api/agents/vm-1", "", tt.defaults, nil); tt.defaults != nil && status != http.StatusOK {
				t.Fatalf("got %d %s", status, text)
			}
			body := map[string]any{"task": "build"}
			maps.Copy(body, tt.task)
			if status, text := h.ask(http.MethodPost, "/api/agents/vm-1/tasks", "", body, nil); status != http.StatusCreated {
				t.Fatalf("got %d %s", status, text)
			}
			got := m.assigned[0]
			got = remoteagent.Assignment{
				PermissionMode: got.PermissionMode, AllowedTools: got.AllowedTools, SystemPrompt: got.SystemPrompt, Model: got.Model,
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestDefaultsOfAnAgentAreSetAndShown(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	if status, text := h.ask(http.MethodPost, "/api/agents", "", map[string]any{
		"url": m.URL, "apiKey": machineKey, "defaultPermissionMode": "acceptEdits", "defaultAllowedTools": []string{"Read"},
	}, nil); status != http.StatusCreated {
		t.Fatalf("got %d %s", status, text)
	}
	var got hubapi.Agent
	change := map[string]any{"name": "Lab", "budgetUsd": 2.5, "defaultCwd": "app", "defaultAllowedTools": nil}
	if status, text := h.ask(http.MethodPatch, "/api/agents/vm-1", "", change, nil); status != http.StatusOK {
		t.Fatalf("got %d %s", status, text)
	}
	if status, text := h.ask(http.MethodGet, "/api/agents/vm-1", "", nil, &got); status != http.StatusOK || got.Name != "Lab" || got.BudgetUSD != 2.5 ||
		got.DefaultCwd != "app" || got.DefaultPermissionMode != remoteagent.PermitEdits || got.DefaultAllowedTools != nil {
		t.Errorf("got %d %s", status, text)
	}
	for body, want := range map[string]string{
		`defaultPermissionMode`: "is not one of", `defaultAllowedTools`: "list of names", `name`: "empty", `url`: "not a known member",
	} {
		value := any("")
		if body == "defaultPermissionMode" {
			value = "plan"
		}
		status, text := h.ask(http.MethodPatch, "/api/agents/vm-1", "", map[string]any{body: value}, nil)
		if status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: got %d %s, want 400 with %q", body, status, text, want)
		}
	}
	if status, _ := h.ask(http.MethodPatch, "/api/agents/vm-2", "", change, nil); status != http.StatusNotFound {
		t.Errorf("an unknown agent: got %d, want 404", status)
	}
}

// A task that was not permitted to do what was asked says so wherever its end is shown.
func TestDenialsOfATaskAreShown(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	task := h.assign("build")
	m.mu.Lock()
	m.tasks[task.TaskID].Denials = []remoteagent.Denial{{Tool: "Write", File: "a.go", Reason: "it needs an approval"}}
	m.mu.Unlock()
	m.end(task.TaskID, remoteagent.Completed, "I could not write.")
	var got hubapi.Task
	eventually(t, func() (err error) {
		if got, err = h.door.GetResult(t.Context(), ref(task.TaskID)); err == nil && got.CompletedAt.IsZero() {
			err = errors.New("the task has not ended")
		}
		return err
	})
	if len(got.Denials) != 1 || got.Denials[0].Tool != "Write" {
		t.Errorf("got %+v", got)
	}
	if text := hubapi.ResultText(got); !strings.Contains(text, "Denied calls") || !strings.Contains(text, "Write a.go (it needs an approval)") {
		t.Errorf("the text is %q", text)
	}
	p, err := h.door.Follow(t.Context(), hubapi.FollowQuery{TaskRef: ref(task.TaskID)})
	if err != nil || !slices.ContainsFunc(p.Lines, func(line string) bool {
		return strings.HasPrefix(line, "> Done, without what was denied: Write a.go")
	}) {
		t.Errorf("got %q, %v", p.Lines, err)
	}
}

// A key names one task: another body under it is refused, by HTTP as on the bus.
func TestAKeyWithAnotherTaskIsRefused(t *testing.T) {
	t.Parallel()
	h, m := open(t, bustest.New(t), "sqlite::memory:", nearby()), newMachine(t)
	h.register(m)
	a := hubapi.Assignment{Tenant: "default", AgentID: "vm-1", Task: "build", Key: "k1"}
	first, err := h.door.AssignTask(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := h.door.AssignTask(t.Context(), a); err != nil || again.TaskID != first.TaskID {
		t.Errorf("the same task again: got %+v, %v", again, err)
	}
	a.PermissionMode = remoteagent.PermitAll
	if _, err := h.door.AssignTask(t.Context(), a); apierr.CodeOf(err) != apierr.IdempotencyMismatch {
		t.Errorf("another mode: got %v, want idempotency_mismatch", err)
	}
	if got := m.prompts(); got != "build" {
		t.Errorf("the agent was given %q, want one task", got)
	}
	for _, tt := range []struct {
		body string
		want int
	}{{`{"task":"one"}`, http.StatusCreated}, {`{"task":"two"}`, http.StatusUnprocessableEntity}, {`{"task":"one"}`, http.StatusCreated}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/api/agents/vm-1/tasks", strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k1")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != tt.want {
			t.Errorf("%s: got %d, want %d", tt.body, response.StatusCode, tt.want)
		}
	}
}
