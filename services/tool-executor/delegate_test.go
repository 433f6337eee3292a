package toolexecutor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

// team is a few agents, of which lead may call helper.
func team() config.Config {
	return config.Config{Agents: map[string]config.Agent{
		"lead": {Agents: []string{"helper", "lead2"}}, "lead2": {Agents: []string{"helper", "lead"}}, "helper": {Description: "helps."},
	}}
}

// asks accepts a request of an agent that calls helper, as the gateway does, with what a user has answered.
func asks(t *testing.T, b *bus.Bus, c record.ToolCall, caller *record.Caller, results ...event.ActionResult) {
	t.Helper()
	a := record.Accepted{
		Tenant: c.Tenant, RequestID: c.RequestID, ThreadID: c.ThreadID, AgentID: c.AgentID, Owner: "ann", Caller: caller, At: time.Now(),
		Request: event.AgentRequest{Context: event.Context{ActionResults: results}},
	}
	if _, _, err := b.Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	next := record.Thread{ThreadID: c.ThreadID, Owner: "ann", AgentID: c.AgentID, RequestID: c.RequestID, At: time.Now()}
	newest, err := b.Thread(t.Context(), c.Tenant, c.ThreadID)
	if err == nil {
		next.Index = newest.Index + 1
	}
	if _, err := b.AdvanceThread(t.Context(), c.Tenant, next, newest.Sequence); err != nil {
		t.Fatal(err)
	}
}

func callOfHelper(t *testing.T) record.ToolCall {
	t.Helper()
	c := newCall(t, "agent__helper", `{"task":"help me"}`)
	c.AgentID = "lead"
	return c
}

func TestACallOfAnAgentIsARequestOfItsOwn(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	c := callOfHelper(t)
	c.Context = []byte(`{"user":"ann"}`)
	asks(t, b, c, nil)
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: team()})
	send(t, b, c)
	result := await(t, b, c)
	child := record.ChildRequest(c.RequestID, c.ToolCallID)
	if result.Status != event.ToolSuccess || result.Content != child {
		t.Fatalf("got %s %q, want the request %s", result.Status, result.Content, child)
	}
	a, err := b.Accepted(t.Context(), bus.LogID{Tenant: c.Tenant, RequestID: child})
	if err != nil {
		t.Fatal(err)
	}
	if a.AgentID != "helper" || a.Owner != "ann" || a.Request.Messages[0].Content[0].Text != "help me" || a.Caller.RequestID != c.RequestID {
		t.Errorf("got %+v", a)
	}
	if got := string(a.Request.Context.Extra.JSON()); got != `{"user":"ann"}` {
		t.Errorf("the child has the context %s, want that of its caller", got)
	}
	pointed, err := b.HasPointer(t.Context(), a)
	if err != nil || !pointed {
		t.Errorf("it has no pointer, %v", err)
	}
}

// TestACallOfAnAgentThatWasCutOff has an executor die after each record that it writes: the next one continues with the same
// request.
func TestACallOfAnAgentThatWasCutOff(t *testing.T) {
	t.Parallel()
	for steps, name := range []string{"before it had done anything", "behind the request's record", "behind the thread's record", "behind the pointer"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.New(t)
			c := callOfHelper(t)
			asks(t, b, c, nil)
			child := record.Accepted{
				Tenant: c.Tenant, RequestID: record.ChildRequest(c.RequestID, c.ToolCallID),
				ThreadID: record.ChildThread(c.ThreadID, c.ToolCallID), AgentID: "helper", Owner: "ann", At: time.Now().UTC(),
				Request: event.AgentRequest{Messages: []event.InputMessage{event.UserText("help me")}},
				Caller:  &record.Caller{RequestID: c.RequestID, ThreadID: c.ThreadID, ToolCallID: c.ToolCallID, Agents: []string{"lead"}},
			}
			for _, step := range []func() error{
				func() error { _, _, err := b.Accept(t.Context(), child); return err },
				func() error {
					_, err := b.AdvanceThread(t.Context(), c.Tenant, record.Thread{
						ThreadID: child.ThreadID, Owner: "ann", AgentID: "helper", RequestID: child.RequestID, At: time.Now(),
					}, 0)
					return err
				},
				func() error { return b.Start(t.Context(), child, 0) },
			}[:steps] {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: team()})
			send(t, b, c)
			if result := await(t, b, c); result.Content != child.RequestID {
				t.Fatalf("got %s %q", result.Status, result.Content)
			}
			records := 0
			for _, err := range b.ThreadRecords(t.Context(), c.Tenant, child.ThreadID, 0) {
				if err != nil {
					t.Fatal(err)
				}
				records++
			}
			waiting, err := b.QueueDepth(t.Context())
			if err != nil || waiting != 1 || records != 1 {
				t.Errorf("got %d pointers and %d records of the thread, %v; want one of each", waiting, records, err)
			}
		})
	}
}

func TestACallOfAnAgentThatIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, agent string
		above       []string
		want        string // "" = it is not refused
	}{
		{"an agent that may", "lead", nil, ""},
		{"an agent that may, as deep as may be", "lead", []string{"a", "b"}, ""},
		{"one too deep", "lead", []string{"a", "b", "c"}, "3 levels deep"},
		{"one that waits already", "lead", []string{"helper"}, "waits for this answer itself (helper called lead)"},
		{"an agent that may not, whatever its runner says", "helper", nil, "agent helper may not call agent helper"},
		{"a request that was not accepted", "", nil, "no longer kept"},
	}
	b := bustest.New(t)
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: team()})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := callOfHelper(t)
			if test.agent != "" {
				accepted := c
				accepted.AgentID = test.agent
				var caller *record.Caller
				if test.above != nil {
					caller = &record.Caller{RequestID: "req_x", ThreadID: "thr_x", ToolCallID: "call_x", Agents: test.above}
				}
				asks(t, b, accepted, caller)
			}
			send(t, b, c)
			result := await(t, b, c)
			if refused := result.Status != event.ToolSuccess; refused != (test.want != "") || !strings.Contains(result.Content, test.want) {
				t.Errorf("got %s %q, want %q", result.Status, result.Content, test.want)
			}
		})
	}
}

// asked places a request of helper that has announced an action and ended, and announces it to the user of lead as shown.
func asked(t *testing.T, b *bus.Bus, c record.ToolCall, action, shown event.Continuation) {
	t.Helper()
	asks(t, b, c, nil)
	send(t, b, c)
	child := await(t, b, c).Content
	announce(t, b, bus.LogID{Tenant: c.Tenant, RequestID: child}, action)
	announce(t, b, logOf(c), shown)
}

func TestWhatTheUserWasNotShownIsNotPassedOn(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*event.Continuation)
		passed bool
	}{
		{"what was shown as it is", func(*event.Continuation) {}, true},
		{"another tool", func(c *event.Continuation) { c.Payload.Tool = "echo" }, false},
		{"other arguments", func(c *event.Continuation) { c.Payload.ArgsHash = "other" }, false},
		{"another kind of action", func(c *event.Continuation) { c.Kind = event.ContinueInput }, false},
		{"nothing", func(c *event.Continuation) { c.ActionID = "act_else" }, false},
	}
	b := bustest.New(t)
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: team()})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := callOfHelper(t)
			action := event.Continuation{
				ActionID: id.New(id.Action), Kind: event.ContinueApproval,
				Payload: event.ContinuationAction{ToolCallID: id.New(id.Call), Tool: "write_file", ArgsHash: "hash"},
			}
			shown := action
			shown.ActionID = record.ChildAction(c.ToolCallID, action.ActionID)
			test.change(&shown)
			asked(t, b, c, action, shown)

			answer := event.ActionResult{ActionID: record.ChildAction(c.ToolCallID, action.ActionID), Status: event.ActionSuccess}
			c.RequestID = id.New(id.Request)
			asks(t, b, c, nil, answer)
			send(t, b, c)
			result := await(t, b, c)
			next, err := b.Accepted(t.Context(), bus.LogID{Tenant: c.Tenant, RequestID: record.ChildRequest(c.RequestID, c.ToolCallID)})
			if passed := err == nil; passed != test.passed {
				t.Fatalf("got %s %q, passed on: %t, want %t", result.Status, result.Content, passed, test.passed)
			}
			if !test.passed {
				return
			}
			if got := next.Request.Context.ActionResults; len(got) != 1 || got[0].ActionID != action.ActionID || next.Caller == nil {
				t.Errorf("got %+v, want the answer under the agent's own id", next)
			}
			thread, err := b.Thread(t.Context(), c.Tenant, next.ThreadID)
			if err != nil || len(thread.Resolves) != 1 || thread.Index != 1 {
				t.Errorf("got %+v, %v; want the thread to say who resolved the action", thread, err)
			}
		})
	}
}

// expired is history for a thread and the thread of an agent called on it, both of which have expired from the stream.
type expired struct {
	past  // the caller's thread
	child historyapi.Thread
	log   historyapi.RequestFrames // of the child's last request
}

func (e expired) Thread(context.Context, historyapi.ThreadRef) (historyapi.Thread, error) {
	return e.child, nil
}

func (e expired) Frames(_ context.Context, q historyapi.FramesQuery) (historyapi.FramePage, error) {
	if q.RequestID != e.log.RequestID || q.From > 0 {
		return historyapi.FramePage{}, nil
	}
	return historyapi.FramePage{Frames: e.log.Frames}, nil
}

// TestAgentContinuesAfterItsThreadHasExpired approves what an agent asked for that another one has called. The agent must not
// begin its task again.
func TestAgentContinuesAfterItsThreadHasExpired(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	c := callOfHelper(t)
	action := event.Continuation{
		ActionID: id.New(id.Action), Kind: event.ContinueApproval,
		Payload: event.ContinuationAction{ToolCallID: id.New(id.Call), Tool: "write_file", ArgsHash: "hash"},
	}
	shown := action
	shown.ActionID = record.ChildAction(c.ToolCallID, action.ActionID)
	caller, child := id.New(id.Request), record.ChildRequest(id.New(id.Request), c.ToolCallID)
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: team(), History: expired{
		past:  past{announcing(t, b, caller, shown)},
		child: historyapi.Thread{ThreadID: record.ChildThread(c.ThreadID, c.ToolCallID), LastRequestID: child, Requests: 1},
		log:   announcing(t, b, child, action),
	}})
	asks(t, b, c, nil, event.ActionResult{ActionID: shown.ActionID, Status: event.ActionSuccess})
	send(t, b, c)
	if result := await(t, b, c); result.Status != event.ToolSuccess {
		t.Fatalf("got %s %q", result.Status, result.Content)
	}
	next, err := b.Accepted(t.Context(), bus.LogID{Tenant: c.Tenant, RequestID: record.ChildRequest(c.RequestID, c.ToolCallID)})
	if err != nil {
		t.Fatal(err)
	}
	if got := next.Request; len(got.Messages) != 0 || len(got.Context.ActionResults) != 1 || got.Context.ActionResults[0].ActionID != action.ActionID {
		t.Errorf("got %+v, want the approval alone", got)
	}
	if thread, err := b.Thread(t.Context(), c.Tenant, next.ThreadID); err != nil || thread.Index != 1 {
		t.Errorf("got %+v, %v, want the second request of the thread", thread, err)
	}
}
