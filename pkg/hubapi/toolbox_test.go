package hubapi_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json/jsontext"
)

// desk is a door with one agent and one task on it, in the state that the test wants.
type desk struct {
	task hubapi.Task
	got  hubapi.Assignment

	answer hubapi.Answer
}

func (d *desk) AssignTask(_ context.Context, a hubapi.Assignment) (hubapi.Task, error) {
	d.got = a
	return d.task, nil
}
func (d *desk) CheckStatus(context.Context, hubapi.TaskRef) (hubapi.Task, error) { return d.task, nil }
func (d *desk) GetResult(context.Context, hubapi.TaskRef) (hubapi.Task, error)   { return d.task, nil }
func (d *desk) CancelTask(_ context.Context, r hubapi.TaskRef) (hubapi.Cancelled, error) {
	return hubapi.Cancelled{TaskID: r.TaskID, Status: remoteagent.Cancelled, Message: "Task cancelled by orchestrator"}, nil
}
func (d *desk) AnswerTask(_ context.Context, a hubapi.Answer) (hubapi.Task, error) {
	d.answer = a
	return d.task, a.Check()
}
func (d *desk) ListAgents(context.Context, hubapi.AgentsQuery) (hubapi.AgentList, error) {
	return hubapi.AgentList{Agents: []hubapi.Agent{{ID: "home-pc-01", Name: "Home PC", IsOnline: true, Status: "idle"}}, TotalCostUSD: 1.5}, nil
}

func TestHubToolTexts(t *testing.T) {
	t.Parallel()
	running := hubapi.Task{
		TaskID: "task_1", SessionID: "s1", AgentID: "home-pc-01", AgentName: "Home PC", Status: remoteagent.Running, TurnsCompleted: 12, CostUSD: 0.42,
	}
	ended := running
	ended.Status, ended.Result, ended.TurnsCompleted, ended.CostUSD = remoteagent.Completed, "all built", 28, 1.23
	lost := running
	lost.Notice = hubapi.Offline("home-pc-01", "the auth system")
	asks := running
	asks.Status = remoteagent.NeedsAction
	asks.Actions = []remoteagent.Action{{
		ActionID: "act_1", Kind: event.ContinueApproval, Tool: "write_file", Input: []byte(`{"path":"a"}`),
		ExpiresAt: time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC),
	}}
	ref := `{"agent_id":"home-pc-01","task_id":"task_1"}`
	tests := []struct {
		name, tool, args string
		task             hubapi.Task
		want             string
	}{
		{"an assigned task is named by its id and its session", "assign_task", `{"agent_id":"home-pc-01","task":"build"}`, running, "taskId task_1, sessionId s1"},
		{"a status has turns and costs", "check_status", ref, running, "is running: 12 turns, $0.42"},
		{"a result of a running task says to wait", "get_result", ref, running, "still running (12 turns, $0.42 so far). Wait, or check back later."},
		{"a result is the text of the agent", "get_result", ref, ended, "completed (28 turns, $1.23).\n\nall built"},
		{"the status says that the agent is offline", "check_status", ref, lost,
			"Agent [home-pc-01] went offline while working on [the auth system]. The task may be partially complete."},
		{"a task that waits names its action", "get_result", ref, asks,
			"Waits for an approval of write_file {\"path\":\"a\"} (action_id act_1, until 2026-11-23T06:00:00Z)\nAsk the user"},
		{"an answer returns the status", "answer_task", `{"agent_id":"home-pc-01","task_id":"task_1","action_id":"act_1","status":"success"}`,
			running, "is running: 12 turns"},
		{"a cancelled task has its text", "cancel_task", ref, running, "Task cancelled by orchestrator"},
		{"agents are listed with their state and cost", "list_agents", `{}`, running, "home-pc-01: Home PC [online, idle]; $0.00\nCost of all tasks: $1.50"},
		{"a call without arguments", "list_agents", ``, running, "home-pc-01"},
	}
	for _, tt := range tests {
		reply, err := hubapi.NewToolbox(&desk{task: tt.task}).Call(t.Context(), hubapi.Caller{Tenant: "acme"}, tt.tool, json.RawMessage(tt.args))
		if err != nil || !strings.Contains(reply.Text, tt.want) || reply.Data == nil {
			t.Errorf("%s: got %q, %v, want %q in it", tt.name, reply.Text, err, tt.want)
		}
	}
}

func TestToolsRefuseWhatTheirSchemasDo(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, tool, args string }{
		{"a task without an id", "check_status", `{"agent_id":"a"}`},
		{"an unknown argument", "assign_task", `{"agent_id":"a","task":"t","urgent":true}`},
		{"arguments that are not an object", "get_result", `[]`},
		{"an argument of the wrong type", "assign_task", `{"agent_id":"a","task":"t","max_turns":"many"}`},
	}
	for _, tt := range tests {
		_, err := hubapi.NewToolbox(new(desk)).Call(t.Context(), hubapi.Caller{}, tt.tool, json.RawMessage(tt.args))
		if apierr.CodeOf(err) != apierr.InvalidMessageFormat {
			t.Errorf("%s: got %v, want invalid_message_format", tt.name, err)
		}
	}
	if _, err := hubapi.NewToolbox(new(desk)).Call(t.Context(), hubapi.Caller{}, "format_disk", nil); apierr.CodeOf(err) != apierr.ToolError {
		t.Errorf("an unknown tool: got %v, want tool_error", err)
	}
}

func TestAssignmentsCarryTheCallersName(t *testing.T) {
	t.Parallel()
	d := new(desk)
	args := json.RawMessage(`{"agent_id":"a","task":"t","cwd":"/w","max_turns":3,"max_budget_usd":0.5,"resume_session":"s",` +
		`"system_prompt":"p","permission_mode":"acceptEdits","allowed_tools":["Read"],"model":"m"}`)
	if _, err := hubapi.NewToolbox(d).Call(t.Context(), hubapi.Caller{Tenant: "acme", Key: "call_1"}, "assign_task", args); err != nil {
		t.Fatal(err)
	}
	want := hubapi.Assignment{Tenant: "acme", AgentID: "a", Task: "t", Cwd: "/w", MaxTurns: 3, MaxBudgetUSD: 0.5, ResumeSession: "s", Key: "call_1",
		SystemPrompt: "p", PermissionMode: remoteagent.PermitEdits, AllowedTools: []string{"Read"}, Model: "m"}
	if !reflect.DeepEqual(d.got, want) {
		t.Errorf("got %+v, want %+v", d.got, want)
	}
}

func TestEveryToolHasASchema(t *testing.T) {
	t.Parallel()
	specs := hubapi.Specs()
	if len(specs) != len(hubapi.Names()) {
		t.Fatalf("got %d specs, want %d", len(specs), len(hubapi.Names()))
	}
	for i, s := range specs {
		if s.Name != hubapi.Names()[i] || !jsontext.Value(s.Schema).IsValid() || jsontext.Value(s.Schema).Kind() != '{' || s.Description == "" {
			t.Errorf("spec %d: got %+v", i, s)
		}
	}
}
