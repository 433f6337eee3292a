package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		mode remoteagent.PermissionMode
		kind event.ContinuationKind
		tool string
		want event.ActionStatus
	}{
		{"an approval without a mode", "", event.ContinueApproval, "write_file", event.ActionDenied},
		{"an approval in the default mode", remoteagent.PermitDefault, event.ContinueApproval, "write_file", event.ActionDenied},
		{"an edit where edits are permitted", remoteagent.PermitEdits, event.ContinueApproval, "write_file", event.ActionSuccess},
		{"another tool where edits are permitted", remoteagent.PermitEdits, event.ContinueApproval, "run_command", event.ActionDenied},
		{"any tool where all is permitted", remoteagent.PermitAll, event.ContinueApproval, "run_command", event.ActionSuccess},
		{"a question, also where all is permitted", remoteagent.PermitAll, event.ContinueInput, "", event.ActionDenied},
		{"a tool of a client", remoteagent.PermitAll, event.ContinueTool, "browser", event.ActionDenied},
	}
	for _, test := range tests {
		task := &task{worker: New(Deps{}), Entry: store.Entry{Assignment: remoteagent.Assignment{PermissionMode: test.mode}}}
		got := task.decide(event.Continuation{ActionID: "act_1", Kind: test.kind, Payload: event.ContinuationAction{Tool: test.tool}})
		if got.Status != test.want || got.ActionID != "act_1" || (got.Error == "") != (test.want == event.ActionSuccess) {
			t.Errorf("%s: got %+v, want %s", test.name, got, test.want)
		}
	}
}

func TestPermissionsOfATask(t *testing.T) {
	t.Parallel()
	names := []string{"Read", "Grep", "Edit", "Write", "Bash(npm test:*)"}
	tests := []struct {
		name        string
		permissions Permissions
		asked, want remoteagent.PermissionMode
		grants      []string
	}{
		{"none is set", Permissions{}, "", remoteagent.PermitDefault, names},
		{"the server's default", Permissions{Default: remoteagent.PermitEdits}, "", remoteagent.PermitEdits, names},
		{"the task's", Permissions{Default: remoteagent.PermitEdits}, remoteagent.PermitDefault, remoteagent.PermitDefault, names},
		{"the maximum of edits", Permissions{Max: remoteagent.PermitEdits}, remoteagent.PermitAll, remoteagent.PermitEdits, names[:4]},
		{"the maximum of the default mode", Permissions{Max: remoteagent.PermitDefault}, remoteagent.PermitEdits, remoteagent.PermitDefault, names[:2]},
	}
	for _, test := range tests {
		if got := test.permissions.Mode(test.asked); got != test.want {
			t.Errorf("%s: got mode %s, want %s", test.name, got, test.want)
		}
		if got := test.permissions.Grants(names); !slices.Equal(got, test.grants) {
			t.Errorf("%s: got %v without an approval, want %v", test.name, got, test.grants)
		}
		if got := test.permissions.Grants([]string{}); got == nil || len(got) > 0 {
			t.Errorf("%s: got %#v for an empty list, want an empty list", test.name, got)
		}
		if got := test.permissions.Grants(nil); got != nil {
			t.Errorf("%s: got %#v without a list, want none", test.name, got)
		}
	}
}

// An empty list would take all tools from the program, also those that its mode allows.
func TestNamesThatTheMaximumForbidsLeaveThePermissionsOfTheMode(t *testing.T) {
	t.Parallel()
	if got := (Permissions{Max: remoteagent.PermitDefault}).Grants([]string{"Bash"}); got != nil {
		t.Errorf("got %#v, want nil", got)
	}
}

func TestLimitsOfATask(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		limits Limits
		turns  int
		cost   float64
		want   Limits
	}{
		{"nothing is set", Limits{}, 0, 0, Limits{defaultTurns, defaultCostUSD}},
		{"the assignment's", Limits{}, 7, 0.5, Limits{7, 0.5}},
		{"the server's", Limits{9, 2}, 0, 0, Limits{9, 2}},
		{"an assignment cannot exceed the server's", Limits{9, 2}, 100, 50, Limits{9, 2}},
		{"an assignment may ask for less", Limits{9, 2}, 3, 1, Limits{3, 1}},
	}
	for _, test := range tests {
		w := New(Deps{Limits: test.limits, Window: func(string) int64 { return 0 }})
		task := &task{worker: w, Entry: store.Entry{Assignment: remoteagent.Assignment{MaxTurns: test.turns, MaxBudgetUSD: test.cost}}}
		if err := task.prepare(); err != nil {
			t.Fatal(err)
		}
		if got := (Limits{task.agent.Turns, task.agent.CostUSD}); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

// subject returns a tool that does what run says.
func subject(name string, effect tool.Effect, run func() (tool.Result, error)) tool.Tool {
	spec := tool.Spec{Name: name, Schema: json.RawMessage(`{"type":"object"}`), Effect: effect, Approval: tool.ApprovalNever}
	return tool.Func(spec, func(context.Context, struct{}, tool.Call) (tool.Result, error) { return run() })
}

func succeeds() (tool.Result, error) { return tool.Result{Content: "done"}, nil }

func TestTheToolsOfATask(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		allowed []string
		want    []string
	}{
		{"all without a list", nil, []string{"echo", "read_file"}},
		{"none with an empty list", []string{}, []string{}},
		{"those that the list names", []string{"echo"}, []string{"echo"}},
		{"the names of Claude Code", []string{"Read", "Bash"}, []string{"read_file"}},
	}
	for _, test := range tests {
		w := New(Deps{
			Tools:       []tool.Tool{subject("echo", tool.EffectNone, succeeds)},
			FolderTools: func(string) []tool.Tool { return []tool.Tool{subject("read_file", tool.EffectNone, succeeds)} },
		})
		task := &task{worker: w, Entry: store.Entry{Assignment: remoteagent.Assignment{AllowedTools: test.allowed}}}
		specs := task.equip([]tool.Spec{w.deps.Tools[0].Spec()})
		names := []string{}
		for _, s := range specs {
			names = append(names, s.Name)
		}
		if !slices.Equal(names, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, names, test.want)
		}
	}
}

func TestACallOfATool(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	runs := map[string]int{}
	counted := func(name string, effect tool.Effect, result func() (tool.Result, error)) tool.Tool {
		return subject(name, effect, func() (tool.Result, error) {
			runs[name]++
			return result()
		})
	}
	refuses := func() (tool.Result, error) {
		return tool.Result{}, apierr.New(apierr.ToolError, "the file does not exist")
	}
	breaks := func() (tool.Result, error) { return tool.Result{}, errors.New("password=secret") }
	w := New(Deps{Store: s, Log: slog.New(slog.DiscardHandler), Tools: []tool.Tool{
		counted("read", tool.EffectNone, succeeds), counted("send", tool.EffectUnsafe, succeeds),
		counted("refuse", tool.EffectUnsafe, refuses), counted("break", tool.EffectNone, breaks), counted("explode", tool.EffectUnsafe, breaks),
	}})
	task := &task{worker: w, recorder: &recorder{}, Entry: store.Entry{Task: remoteagent.Task{TaskID: "task_1"}}}
	task.equip(nil)
	call := func(name string) loop.Output {
		t.Helper()
		o, err := tools{task}.Call(t.Context(), backend.Call{ID: "call_" + name, Name: name, Args: json.RawMessage(`{}`)}, "", func(loop.Progress) {})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	tests := []struct {
		name, tool string
		status     event.ToolStatus
		content    string // part of it
		runs       int    // in all
	}{
		{"a success", "read", event.ToolSuccess, "done", 1},
		{"the same call again, of a tool without effect", "read", event.ToolSuccess, "done", 2},
		{"an unsafe call", "send", event.ToolSuccess, "done", 1},
		{"the same unsafe call again", "send", event.ToolUnknown, "was not run again", 1},
		{"an error of the tool", "refuse", event.ToolFailed, "the file does not exist", 1},
		{"a defect of a tool without effect", "break", event.ToolFailed, "the tool failed", 1},
		{"a defect of an unsafe tool", "explode", event.ToolUnknown, "may or may not have taken effect", 1},
		{"a tool that does not exist", "none", event.ToolFailed, "there is no tool", 0},
	}
	for _, test := range tests {
		got := call(test.tool)
		if got.Status != test.status || !strings.Contains(got.Content, test.content) || runs[test.tool] != test.runs {
			t.Errorf("%s: got %s %q after %d runs, want %s %q after %d", test.name, got.Status, got.Content, runs[test.tool], test.status, test.content, test.runs)
		}
		if strings.Contains(got.Content+got.Summary, "secret") {
			t.Errorf("%s: the model reads the cause: %+v", test.name, got)
		}
	}
}
