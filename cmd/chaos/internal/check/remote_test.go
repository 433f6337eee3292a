package check

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
)

func TestARemoteAgentShowsOnce(t *testing.T) {
	t.Parallel()
	text := func(block, delta string) event.Body {
		return event.Text{Block: event.Block{BlockID: block, Stage: event.StageDelta}, Delta: delta}
	}
	call := func(id string) event.Body {
		return event.ToolCall{Block: event.Block{BlockID: "b-" + id, Stage: event.StageStop}, ToolCallID: id, Tool: "echo", Args: json.RawMessage(`{}`)}
	}
	result := func(id string) event.Body {
		return event.ToolResult{Block: event.Block{BlockID: "r-" + id, Stage: event.StageStop}, ToolCallID: id, Tool: "echo", Status: event.ToolSuccess}
	}
	discarded := event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageStop, Discarded: true}}
	tests := []struct {
		what   string
		bodies []event.Body
		want   string // part of a violation; "" = none
	}{
		{"once", []event.Body{text("b0", ""), text("b0", "before"), call("c"), result("c"), text("b1", "after")}, ""},
		{"a discarded block is said again", []event.Body{
			text("b0", "bef"), discarded, text("b2", "before"), call("c"), result("c"), text("b1", "after"),
		}, ""},
		{"a text twice", []event.Body{text("b0", "before"), call("c"), result("c"), text("b2", "before"), text("b1", "after")}, "2 times"},
		{"a text never", []event.Body{text("b0", "before"), call("c"), result("c")}, "0 times"},
		{"a call twice", []event.Body{text("b0", "before"), call("c"), call("d"), result("c"), result("d"), text("b1", "after")}, "2 calls"},
		{"a call without a result", []event.Body{text("b0", "before"), call("c"), text("b1", "after")}, "0 results"},
	}
	for _, test := range tests {
		r := good(t)
		l := accepted(r, "req_far", "thr_far", 0, nil)
		l.Accepted.AgentID = "remote-ash"
		l.Accepted.Request.Messages = []event.InputMessage{event.UserText("/say before\n/tool echo {}\n/say after")}
		write(t, l, "req_far", 1, 201, 1, append(append([]event.Body{event.Claim{Epoch: 1}}, test.bodies...), event.Done{ThreadID: "thr_far"})...)
		found := r.remotes()
		if (test.want == "") != (len(found) == 0) || len(found) > 0 && !strings.Contains(found[0].Text, test.want) {
			t.Errorf("%s: got %v, want %q", test.what, found, test.want)
		}
	}
}

func TestOutputsOfWhatAnAgentRanByItselfHaveCalls(t *testing.T) {
	t.Parallel()
	r := good(t)
	l := accepted(r, "req_far", "thr_far", 0, nil)
	index, delta := 0, 0
	block := func(stage event.Stage) event.Block {
		return event.Block{BlockID: "b0", BlockIndex: &index, Stage: stage}
	}
	args := event.ToolCall{Block: block(event.StageDelta), Delta: "{}"}
	args.DeltaIndex = &delta
	write(t, l, "req_far", 1, 201, 1, event.Claim{Epoch: 1}, event.ToolCall{Block: block(event.StageStart)}, args,
		event.ToolCall{Block: block(event.StageStop), ToolCallID: "call_far", Tool: "echo", Args: json.RawMessage(`{}`), ByAgent: true},
		event.ToolOutput{ToolCallID: "call_far"}, event.Done{ThreadID: "thr_far"})
	if found := r.results(); len(found) > 0 {
		t.Errorf("got %v, want none", found)
	}
	write(t, l, "req_far", 1, 202, 6, event.ToolOutput{ToolCallID: "call_far"}, event.ToolOutput{ToolCallID: "call_other"})
	if found := r.results(); len(found) != 2 {
		t.Errorf("got %v, want one for the second output and one for that of an unknown call", found)
	}
}

func TestATaskIsGivenOnceAndEnds(t *testing.T) {
	t.Parallel()
	entry := func(key, task, state string) oplog.Entry {
		return oplog.Entry{Op: oplog.Task, Tenant: "ash", Key: key, Request: task, Status: 200, Code: state}
	}
	tests := []struct {
		what    string
		entries []oplog.Entry
		want    string // part of a violation; "" = none
	}{
		{"one task", []oplog.Entry{entry("k", "task_1", "running"), entry("k", "task_1", "running"), entry("", "task_1", "completed")}, ""},
		{"two tasks under one key", []oplog.Entry{entry("k", "task_1", "completed"), entry("k", "task_2", "completed")}, "as well"},
		{"a task without an end", []oplog.Entry{entry("k", "task_1", "running")}, "never ended"},
		{"a task with two ends", []oplog.Entry{entry("k", "task_1", "failed"), entry("", "task_1", "completed")}, "is completed now"},
		{"a task that is gone", []oplog.Entry{entry("k", "task_1", "completed"), {Op: oplog.Task, Request: "task_1", Status: 404}}, "forgotten"},
	}
	for _, test := range tests {
		r := &Run{Entries: test.entries}
		found := r.tasks()
		if (test.want == "") != (len(found) == 0) || len(found) > 0 && !strings.Contains(found[0].Text, test.want) {
			t.Errorf("%s: got %v, want %q", test.what, found, test.want)
		}
	}
}
