package storetest

import (
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

func asks(actionID string) event.Body {
	return event.Continuation{ActionID: actionID, Kind: event.ContinueApproval}
}

func listsContinuations(t *testing.T, s store.Store) {
	done := event.Done{FinishReason: event.FinishActionRequired}
	failed := event.Error{Code: "agent_error"}
	logs := []struct {
		thread string
		index  int
		bodies []event.Body
	}{
		{"thr", 0, []event.Body{asks("a1"), asks("a2"), textStop("both"), done}},
		{"thr", 1, []event.Body{asks("a3"), failed}},
		{"thr", 2, []event.Body{asks("a4")}},
		{"other", 0, []event.Body{textStop("before"), asks("a5"), done}},
		{"none", 0, []event.Body{textStop("no action"), done}},
		{"deleted", 0, []event.Body{asks("a6"), done}},
	}
	var ids []string
	for _, one := range logs {
		l := NewLog(one.thread, one.index)
		apply(t, s, append(l.Frames(2, one.bodies...), l.Accepted(), l.Thread())...)
		ids = append(ids, l.RequestID)
	}
	apply(t, s, NewLog("deleted", 0).Deleted())
	unowned := NewLog("unowned", 0)
	apply(t, s, unowned.Frame(0, asks("a7"), done))
	ids = append(ids, unowned.RequestID, "req_unknown")

	for _, test := range []struct {
		name, tenant string
		requestIDs   []string
		want         []string
	}{
		{"of requests that ended with done", Tenant, ids, []string{"req_other_0/1", "req_thr_0/0", "req_thr_0/1"}},
		{"of one request", Tenant, ids[:1], []string{"req_thr_0/0", "req_thr_0/1"}},
		{"of no request", Tenant, nil, nil},
		{"of another tenant", "another", ids, nil},
	} {
		events, err := s.Continuations(t.Context(), test.tenant, test.requestIDs)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range events {
			got = append(got, place(e))
			if e.Name != event.NameContinuation || e.Incarnation != "i1" || len(e.JSON) == 0 {
				t.Errorf("%s: got event %+v, want a whole continuation", test.name, e)
			}
		}
		wantSame(t, test.name, got, test.want)
	}
}

// selectsToolOutput has two agents on one thread; each prints, ends a tool, and calls a subagent whose tool returns something.
func selectsToolOutput(t *testing.T, s store.Store) {
	printed := event.ToolResult{Block: event.Block{Stage: event.StageDelta}, Delta: "printed"}
	summary := event.ToolResult{Block: event.Block{Stage: event.StageStop}, Status: event.ToolSuccess, Summary: "7 bytes"}
	within := event.Subagent{Inner: []byte(`{"event":"tool_output","content":"within"}`)}
	output := event.ToolOutput{ToolCallID: "call_1", Status: event.ToolSuccess, Content: "secret"}
	for i, agentID := range []string{"closed", "open"} {
		l := NewLog("thr", i)
		accepted, thread := l.Accepted(), l.Thread()
		accepted.Accepted.AgentID, thread.Thread.AgentID = agentID, agentID
		apply(t, s, append(l.Frames(2, printed, summary, output, within, event.Aborted{}), accepted, thread)...)
	}
	closed := NewLog("thr", 0).RequestID
	for _, test := range []struct {
		name  string
		query store.Events
		want  string
	}{
		{"with the output of all agents", store.Events{}, "tool_result tool_result tool_output subagent aborted tool_result tool_result tool_output subagent aborted"},
		{"without output", store.Events{WithoutToolOutput: true}, "tool_result aborted tool_result aborted"},
		{
			"with the output of one agent", store.Events{WithoutToolOutput: true, ToolOutputOf: []string{"open"}},
			"tool_result aborted tool_result tool_result tool_output subagent aborted",
		},
		{
			"of a request, without output", store.Events{RequestID: closed, WithoutToolOutput: true, ToolOutputOf: []string{"closed"}},
			"tool_result aborted",
		},
	} {
		q := test.query
		q.Tenant, q.Limit = Tenant, 100
		if q.RequestID == "" {
			q.ThreadID = "thr"
		}
		events, err := s.Events(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(events); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
