package hubtool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/hubtool"
)

// desk is a hub on whose only agent a task ends behind three lines.
type desk struct {
	hubapi.Door
	assigned hubapi.Assignment
	hangs    bool
}

func (d *desk) AssignTask(_ context.Context, a hubapi.Assignment) (hubapi.Task, error) {
	d.assigned = a
	return hubapi.Task{TaskID: "task_1", AgentID: a.AgentID, Status: remoteagent.Running}, nil
}

func (d *desk) task() hubapi.Task {
	if d.hangs {
		return hubapi.Task{TaskID: "task_1", Status: remoteagent.Running}
	}
	return hubapi.Task{TaskID: "task_1", Status: remoteagent.Completed, Result: "built", CompletedAt: time.Now()}
}

func (d *desk) GetResult(_ context.Context, r hubapi.TaskRef) (hubapi.Task, error) {
	if r.TaskID != "task_1" || r.Tenant != "acme" {
		return hubapi.Task{}, apierr.New(apierr.RequestNotFound, "no task")
	}
	return d.task(), nil
}

func (d *desk) Follow(ctx context.Context, q hubapi.FollowQuery) (hubapi.Progress, error) {
	if q.TaskID != "task_1" || q.Tenant != "acme" {
		return hubapi.Progress{}, apierr.New(apierr.RequestNotFound, "no task")
	}
	lines := []string{"[Home PC - Working]", "> Editing a.go", "> Done! (1 turn, $0.10)"}
	if d.hangs && q.After == 2 {
		<-ctx.Done()
		return hubapi.Progress{Next: 2, Task: d.task()}, nil
	}
	p := hubapi.Progress{Lines: lines[q.After : q.After+1], Next: q.After + 1, Task: hubapi.Task{Status: remoteagent.Running}}
	if p.Next == len(lines) {
		p.Task = d.task()
	}
	return p, nil
}

func call(t *testing.T, ctx context.Context, d *desk, name, args string) (result tool.Result, shown string, err error) { //nolint:revive // t first
	t.Helper()
	for _, one := range hubtool.Tools(d) {
		if one.Spec().Name == name {
			result, err = one.Call(ctx, tool.Call{
				ID: "call_1", Args: json.RawMessage(args), Progress: func(s string) { shown += s }, For: tool.Caller{Tenant: "acme"},
			})
			return result, shown, err
		}
	}
	t.Fatalf("there is no tool %s", name)
	return result, shown, err
}

func TestATaskIsAssignedOnceForACall(t *testing.T) {
	t.Parallel()
	d := new(desk)
	result, _, err := call(t, t.Context(), d, "assign_task", `{"agent_id":"home-pc-01","task":"build"}`)
	if err != nil || !strings.Contains(result.Content, "taskId task_1") {
		t.Errorf("got %+v, %v", result, err)
	}
	if d.assigned.Key != "call_1" || d.assigned.Tenant != "acme" {
		t.Errorf("got %+v, want it named by the call", d.assigned)
	}
}

const theTask = `{"agent_id":"home-pc-01","task_id":"task_1"}`

func TestAResultIsAwaitedInSight(t *testing.T) {
	t.Parallel()
	result, shown, err := call(t, t.Context(), new(desk), "get_result", theTask)
	if err != nil || !strings.Contains(result.Content, "built") {
		t.Errorf("got %+v, %v", result, err)
	}
	if want := "[Home PC - Working]\n> Editing a.go\n> Done! (1 turn, $0.10)\n"; shown != want {
		t.Errorf("showed %q, want %q", shown, want)
	}
}

func TestAWaitEndsBeforeTheCallsTimeDoes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second+50*time.Millisecond)
	defer cancel()
	result, _, err := call(t, ctx, &desk{hangs: true}, "get_result", theTask)
	if err != nil || !strings.Contains(result.Content, "still running") || ctx.Err() != nil {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestATaskThatIsNotThereIsSaidSo(t *testing.T) {
	t.Parallel()
	for _, args := range []string{`{"agent_id":"home-pc-01","task_id":"task_2"}`, `{"agent_id":"home-pc-01"}`} {
		if _, _, err := call(t, t.Context(), new(desk), "get_result", args); apierr.CodeOf(err) == apierr.Internal {
			t.Errorf("%s: got %v, want a fault that the model may read", args, err)
		}
	}
}
