package toolexecutor_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

// story is what the bus holds of an approval: a request asked for it, and the next one on the thread brought it.
type story struct {
	tenant, threadID string
	asked, allowed   string // requests
	announced        event.Continuation
	results          []event.ActionResult
	resolves         []string
	inOwnLog         bool // it is the allowed request's own log that announces, which its runner writes
}

// storyOf is the story that makes call an approved one.
func storyOf(call *record.ToolCall) *story {
	call.Approved = id.New(id.Action)
	return &story{
		tenant: call.Tenant, threadID: call.ThreadID, asked: id.New(id.Request), allowed: call.RequestID,
		announced: event.Continuation{
			ActionID: call.Approved, Kind: event.ContinueApproval,
			Payload: event.ContinuationAction{ToolCallID: call.ToolCallID, Tool: call.Tool, Args: call.Args, ArgsHash: call.ArgsHash},
		},
		results:  []event.ActionResult{{ActionID: call.Approved, Status: event.ActionSuccess}},
		resolves: []string{call.Approved},
	}
}

// write puts the story on the bus, as gateways and runners would.
func (s *story) write(t *testing.T, b *bus.Bus) {
	t.Helper()
	announcer := s.asked
	if s.inOwnLog {
		announcer = s.allowed
	}
	sequence := uint64(0)
	for index, requestID := range []string{s.asked, s.allowed} {
		accepted := record.Accepted{
			Tenant: s.tenant, RequestID: requestID, ThreadID: s.threadID, AgentID: "demo", Owner: "ann", At: time.Now(),
		}
		next := record.Thread{ThreadID: s.threadID, Owner: "ann", AgentID: "demo", RequestID: requestID, Index: index, At: time.Now()}
		if requestID == s.allowed {
			accepted.Request.Context.ActionResults, next.Resolves = s.results, s.resolves
		}
		if _, _, err := b.Accept(t.Context(), accepted); err != nil {
			t.Fatal(err)
		}
		record, err := b.AdvanceThread(t.Context(), s.tenant, next, sequence)
		if err != nil {
			t.Fatal(err)
		}
		sequence = record.Sequence
		switch requestID {
		case announcer:
			announce(t, b, bus.LogID{Tenant: s.tenant, RequestID: requestID}, s.announced)
		case s.asked:
			announce(t, b, bus.LogID{Tenant: s.tenant, RequestID: requestID}, event.Continuation{ActionID: "act_no", Kind: event.ContinueInput})
		}
	}
}

func announce(t *testing.T, b *bus.Bus, log bus.LogID, c event.Continuation) {
	t.Helper()
	w, _, err := b.Claim(t.Context(), log, "runner", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	other := event.Continuation{ActionID: "act_other", Kind: event.ContinueInput}
	for _, body := range []event.Body{other, c, event.Done{FinishReason: event.FinishActionRequired, Content: []event.Content{}}} {
		if err := w.Emit(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAnApprovalIsEvidenceForOneCall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		change  func(*story, *record.ToolCall)
		status  event.ToolStatus
		content string
	}{
		{"that a person allowed it runs", func(*story, *record.ToolCall) {}, event.ToolSuccess, "ran"},
		{"that is spaced otherwise runs", func(_ *story, c *record.ToolCall) { c.Args = []byte(`{ "to" : "eve" }`) }, event.ToolSuccess, "ran"},
		{"whose arguments have changed does not", func(_ *story, c *record.ToolCall) {
			c.Args = []byte(`{"to":"mallory"}`)
		}, event.ToolFailed, "not the ones"},
		{"whose arguments and hash have changed does not", func(_ *story, c *record.ToolCall) {
			c.Args = []byte(`{"to":"mallory"}`)
			c.ArgsHash, _ = record.HashArgs(c.Args)
		}, event.ToolDenied, "another call"},
		{"that is another one of the same arguments does not", func(_ *story, c *record.ToolCall) {
			c.ToolCallID = id.New(id.Call)
		}, event.ToolDenied, "another call"},
		{"of another tool does not", func(s *story, _ *record.ToolCall) { s.announced.Payload.Tool = "echo" }, event.ToolDenied, "another call"},
		{"for which a client tool was announced does not", func(s *story, _ *record.ToolCall) {
			s.announced.Kind = event.ContinueTool
		}, event.ToolDenied, "another call"},
		{"that the user denied does not", func(s *story, _ *record.ToolCall) {
			s.results[0].Status = event.ActionDenied
		}, event.ToolDenied, "not given"},
		{"of which the user said nothing does not", func(s *story, _ *record.ToolCall) { s.results = nil }, event.ToolDenied, "not given"},
		{"that was announced and never resolved does not", func(s *story, _ *record.ToolCall) { s.resolves = nil }, event.ToolDenied, "acted"},
		{"of another action does not", func(_ *story, c *record.ToolCall) { c.Approved = "act_other" }, event.ToolDenied, "acted"},
		{"of an action that was not announced does not", func(s *story, _ *record.ToolCall) {
			s.announced.ActionID = "act_else"
		}, event.ToolDenied, "it was never requested"},
		{"that only the runner's own log announces does not", func(s *story, _ *record.ToolCall) { s.inOwnLog = true }, event.ToolDenied, "it was never requested"},
		{"of another thread does not", func(_ *story, c *record.ToolCall) { c.ThreadID = id.New(id.Thread) }, event.ToolDenied, "acted"},
		{"of another tenant does not", func(s *story, _ *record.ToolCall) { s.tenant = "u" }, event.ToolDenied, "acted"},
	}
	b := bustest.New(t)
	p := newProbe(tool.EffectUnsafe, says("ran"))
	p.spec.Approval = tool.ApprovalAlways
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newCall(t, "probe", `{"to":"eve"}`)
			s := storyOf(&c)
			test.change(s, &c)
			s.write(t, b)
			send(t, b, c)
			result := await(t, b, c)
			if result.Status != test.status || !strings.Contains(result.Content, test.content) {
				t.Errorf("got %s %q, want %s with %q", result.Status, result.Content, test.status, test.content)
			}
		})
	}
}

// TestAnApprovalHoldsLater has the approved call run by a request after the one that brought the approval, whose runner
// got no further.
func TestAnApprovalHoldsLater(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p := newProbe(tool.EffectNone, says("ran"))
	p.spec.Approval = tool.ApprovalAlways
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})
	c := newCall(t, "probe", `{}`)
	storyOf(&c).write(t, b)
	c.RequestID = id.New(id.Request)
	send(t, b, c)
	if result := await(t, b, c); result.Status != event.ToolSuccess {
		t.Errorf("got %s %q", result.Status, result.Content)
	}
}

// TestAnApprovalWithoutItsThread says what happens when the stream has forgotten who approved.
func TestAnApprovalWithoutItsThread(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p := newProbe(tool.EffectNone, says("ran"))
	p.spec.Approval = tool.ApprovalAlways
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})
	c := newCall(t, "probe", `{}`)
	c.Approved = id.New(id.Action)
	next := record.Thread{ThreadID: c.ThreadID, Owner: "ann", RequestID: c.RequestID, Index: 7, Resolves: []string{c.Approved}, At: time.Now()}
	if _, err := b.AdvanceThread(t.Context(), c.Tenant, next, 0); err != nil {
		t.Fatal(err)
	}
	send(t, b, c)
	if result := await(t, b, c); result.Status != event.ToolDenied || !strings.Contains(result.Content, "no longer kept") || p.runs.Load() != 0 {
		t.Errorf("got %s %q", result.Status, result.Content)
	}
}

// past is what history has of a thread; nil = history does not know the thread.
type past []historyapi.RequestFrames

func (p past) Thread(context.Context, historyapi.ThreadRef) (historyapi.Thread, error) {
	return historyapi.Thread{}, apierr.New(apierr.ThreadNotFound, "no such thread")
}

func (p past) Frames(context.Context, historyapi.FramesQuery) (historyapi.FramePage, error) {
	return historyapi.FramePage{}, apierr.New(apierr.RequestNotFound, "no such request")
}

func (p past) AllThreadFrames(context.Context, historyapi.ThreadFramesQuery) iter.Seq2[historyapi.RequestFrames, error] {
	return func(yield func(historyapi.RequestFrames, error) bool) {
		if p == nil {
			yield(historyapi.RequestFrames{}, apierr.New(apierr.ThreadNotFound, "no such thread"))
		}
		for _, r := range p {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// announcing returns what history has of a request that announces c.
func announcing(t *testing.T, b *bus.Bus, requestID string, c event.Continuation) historyapi.RequestFrames {
	t.Helper()
	log := bus.LogID{Tenant: "elsewhere", RequestID: id.New(id.Request)}
	announce(t, b, log, c)
	r := historyapi.RequestFrames{RequestID: requestID}
	for f, err := range b.Read(t.Context(), log, 0) {
		if err != nil {
			t.Fatal(err)
		}
		r.Frames = append(r.Frames, historyapi.Frame{Incarnation: f.Incarnation, First: f.First, Names: f.Names, Lines: string(f.Lines)})
		if f.Terminal() {
			break
		}
	}
	return r
}

// TestApprovalOfExpiredRequestIsReadFromHistory keeps of a thread only the request that allowed the action.
func TestApprovalOfExpiredRequestIsReadFromHistory(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for name, test := range map[string]struct {
		change  func(*event.Continuation)
		history func(asked, other, allowed historyapi.RequestFrames) past
		status  event.ToolStatus
		content string
	}{
		"announced before": {
			history: func(asked, other, allowed historyapi.RequestFrames) past { return past{other, asked, allowed} },
			status:  event.ToolSuccess, content: "ran",
		},
		"announced before, and the approval is not in history yet": {
			history: func(asked, other, _ historyapi.RequestFrames) past { return past{other, asked} },
			status:  event.ToolSuccess, content: "ran",
		},
		"announced for other arguments": {
			change:  func(c *event.Continuation) { c.Payload.ArgsHash = "other" },
			history: func(asked, other, allowed historyapi.RequestFrames) past { return past{other, asked, allowed} },
			status:  event.ToolDenied, content: "another call",
		},
		"announced by an earlier request": {
			history: func(asked, other, allowed historyapi.RequestFrames) past { return past{asked, other, allowed} },
			status:  event.ToolDenied, content: "it was never requested",
		},
		"announced by the request that allows": {
			history: func(asked, other, allowed historyapi.RequestFrames) past {
				allowed.Frames = asked.Frames
				return past{other, allowed}
			},
			status: event.ToolDenied, content: "it was never requested",
		},
		"a thread that history does not know": {
			history: func(_, _, _ historyapi.RequestFrames) past { return nil },
			status:  event.ToolDenied, content: "no longer kept",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCall(t, "probe", `{"to":"eve"}`)
			s := storyOf(&c)
			if test.change != nil {
				test.change(&s.announced)
			}
			asked := announcing(t, b, s.asked, s.announced)
			other := announcing(t, b, id.New(id.Request), event.Continuation{ActionID: id.New(id.Action), Kind: event.ContinueInput})
			allowed := historyapi.RequestFrames{RequestID: s.allowed}
			p := newProbe(tool.EffectUnsafe, says("ran"))
			p.spec.Approval = tool.ApprovalAlways
			defer start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), History: test.history(asked, other, allowed), Tools: []tool.Tool{p}})()
			s.writeAllowed(t, b)
			send(t, b, c)
			result := await(t, b, c)
			if result.Status != test.status || !strings.Contains(result.Content, test.content) {
				t.Errorf("got %s %q, want %s with %q", result.Status, result.Content, test.status, test.content)
			}
		})
	}
}

// writeAllowed puts only the last request of the story on the bus, on a thread that had seven others.
func (s *story) writeAllowed(t *testing.T, b *bus.Bus) {
	t.Helper()
	accepted := record.Accepted{
		Tenant: s.tenant, RequestID: s.allowed, ThreadID: s.threadID, AgentID: "demo", Owner: "ann", At: time.Now(),
		Request: event.AgentRequest{Context: event.Context{ActionResults: s.results}},
	}
	if _, _, err := b.Accept(t.Context(), accepted); err != nil {
		t.Fatal(err)
	}
	next := record.Thread{
		ThreadID: s.threadID, Owner: "ann", AgentID: "demo", RequestID: s.allowed, Index: 7, Resolves: s.resolves, At: time.Now(),
	}
	if _, err := b.AdvanceThread(t.Context(), s.tenant, next, 0); err != nil {
		t.Fatal(err)
	}
}

func TestAgentConfiguresToolApprovals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		tool     tool.Approval
		agent    config.Approvals
		recorded string // agent of the request, as the gateway wrote it down; "" = it did not
		status   event.ToolStatus
	}{
		{"an agent that asks where the tool does not", tool.ApprovalNever, config.Approvals{"probe": "always"}, "demo", event.ToolDenied},
		{"an agent that asks for every tool", tool.ApprovalNever, config.Approvals{"*": "always"}, "demo", event.ToolDenied},
		{"an agent that does not ask where the tool does", tool.ApprovalAlways, config.Approvals{"probe": "never"}, "demo", event.ToolSuccess},
		{"a request of another agent", tool.ApprovalAlways, config.Approvals{"probe": "never"}, "other", event.ToolDenied},
		{"a request that was not accepted", tool.ApprovalAlways, config.Approvals{"probe": "never"}, "", event.ToolDenied},
		{"an agent that says nothing of the tool", tool.ApprovalAlways, config.Approvals{"echo": "never"}, "demo", event.ToolDenied},
	}
	b := bustest.New(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newProbe(tool.EffectNone, says("ran"))
			p.spec.Approval = test.tool
			cfg := config.Config{Agents: map[string]config.Agent{"demo": {Approval: test.agent}}}
			defer start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: cfg, Tools: []tool.Tool{p}})()
			c := newCall(t, "probe", `{}`)
			if test.recorded != "" {
				a := record.Accepted{Tenant: c.Tenant, RequestID: c.RequestID, ThreadID: c.ThreadID, AgentID: test.recorded, At: time.Now()}
				if _, _, err := b.Accept(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
			send(t, b, c)
			if result := await(t, b, c); result.Status != test.status {
				t.Errorf("got %s %q, want %s", result.Status, result.Content, test.status)
			}
		})
	}
}
