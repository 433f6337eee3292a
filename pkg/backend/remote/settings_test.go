package remote_test

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/remote"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// A request sets in context.task what its task may do.
func TestARequestSetsWhatItsTaskMayDo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, options string
		want          hubapi.Assignment
		refused       string
	}{
		{"no options", "", hubapi.Assignment{}, ""},
		{"a context without a task", `{"context":{"user":"a"}}`, hubapi.Assignment{}, ""},
		{"a context that is a text", `{"context":"a"}`, hubapi.Assignment{}, ""},
		{"all settings", `{"context":{"task":{"permissionMode":"acceptEdits","allowedTools":["Read"],"cwd":"app"}}}`,
			hubapi.Assignment{PermissionMode: remoteagent.PermitEdits, AllowedTools: []string{"Read"}, Cwd: "app"}, ""},
		{"no tools", `{"context":{"task":{"allowedTools":[]}}}`, hubapi.Assignment{AllowedTools: []string{}}, ""},
		{"an unknown setting", `{"context":{"task":{"permission_mode":"acceptEdits"}}}`, hubapi.Assignment{}, "permission_mode"},
		{"a setting of another type", `{"context":{"task":{"cwd":7}}}`, hubapi.Assignment{}, "cwd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, remoteagent.Result{Status: remoteagent.Completed, Result: "yes"})
			asked := turn("build")
			asked.Options, asked.Model = []byte(tt.options), "large"
			_, err := l.session(t, backend.State{}).Send(t.Context(), asked, func(backend.Chunk) error { return nil })
			if tt.refused != "" {
				if apierr.CodeOf(err) != apierr.InvalidMessageFormat || !strings.Contains(err.Error(), tt.refused) || len(l.tasks) != 0 {
					t.Errorf("got %v, %+v, want a refusal of %s", err, l.tasks, tt.refused)
				}
				return
			}
			tasks := slices.Collect(maps.Values(l.tasks))
			if err != nil || len(tasks) != 1 {
				t.Fatalf("got %v, %+v", err, tasks)
			}
			got := hubapi.Assignment{PermissionMode: tasks[0].PermissionMode, AllowedTools: tasks[0].AllowedTools, Cwd: tasks[0].Cwd}
			if !reflect.DeepEqual(got, tt.want) || tasks[0].Model != "large" {
				t.Errorf("got %+v, want %+v with the model large", tasks[0], tt.want)
			}
		})
	}
}

// The tools that one request names are not those of the next one.
func TestTheDefaultToolsOfATaskStay(t *testing.T) {
	t.Parallel()
	l := newLab(t, remoteagent.Result{Status: remoteagent.Completed, Result: "yes"})
	defaults := remote.Settings{AllowedTools: []string{"Read", "Grep"}}
	b := remote.New(remote.Options{
		Hub: l, HTTP: http.DefaultClient, Tenant: "acme", Ends: func(error) bool { return false }, Defaults: defaults, Agent: "vm-1",
	})
	for _, tt := range []struct {
		options string
		want    []string
	}{
		{`{"context":{"task":{"allowedTools":["Bash"]}}}`, []string{"Bash"}},
		{`{"context":{"task":{"allowedTools":[]}}}`, []string{}},
		{`{"context":{"task":{"allowedTools":null}}}`, nil},
		{`{"context":{"task":{"cwd":"app"}}}`, []string{"Read", "Grep"}},
		{"", []string{"Read", "Grep"}},
	} {
		session, err := b.Start(t.Context(), backend.Start{RequestID: "req_1", AgentID: "vm-1"})
		if err != nil {
			t.Fatal(err)
		}
		asked := turn("build")
		asked.Options = []byte(tt.options)
		clear(l.tasks)
		if _, err := session.Send(t.Context(), asked, func(backend.Chunk) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for _, task := range l.tasks {
			if !reflect.DeepEqual(task.AllowedTools, tt.want) {
				t.Errorf("%s: got %#v, want %#v", tt.options, task.AllowedTools, tt.want)
			}
		}
	}
}

// A call that the agent was not permitted to make is denied in the log too, and a notice reports it.
func TestDenialsReachTheLog(t *testing.T) {
	t.Parallel()
	l := newLab(t,
		remoteagent.ToolStart{Tool: "Write", File: "a.go", ToolCallID: "c1"},
		remoteagent.ToolEnd{Tool: "Write", File: "a.go", ToolCallID: "c1", Denied: true, Summary: "it needs an approval"},
		remoteagent.Result{Status: remoteagent.Completed, Result: "I could not.", StopReason: remoteagent.StopDenied,
			Denials: []remoteagent.Denial{{Tool: "Write", File: "a.go", Reason: "it needs an approval"}}},
	)
	got, outcome, err := sendTurn(t, l.session(t, backend.State{}), "build")
	if err != nil || outcome.Finish != event.FinishStop {
		t.Fatalf("got %+v, %v", outcome, err)
	}
	for _, want := range []string{"ToolEnded {ID:c1 Status:denied", "Warning The agent was not permitted", "Write a.go (it needs an approval)"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q in it", got, want)
		}
	}
}
