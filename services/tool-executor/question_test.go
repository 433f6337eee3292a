package toolexecutor_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/mcp/mcptest"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

// questioner is an MCP server whose questions keep the call open, with approvals for all its tools.
func questioner(t *testing.T) config.Config {
	t.Helper()
	server := httptest.NewServer(mcptest.Handler(mcptest.Old(mcptest.New(func() {}))))
	t.Cleanup(func() {
		_ = server.Listener.Close() // first: a client could connect again
		server.CloseClientConnections()
		server.Close()
	})
	return connected(config.MCPServer{URL: server.URL, Elicitation: true, Events: true, Approval: tool.ApprovalNever})
}

// continued returns the call that continues one which has asked, and the records that a gateway and a runner leave of the answer.
func continued(call record.ToolCall, ask *record.ToolAsk, result string) (record.ToolCall, *story) {
	next := call
	next.RequestID = id.New(id.Request)
	s := storyOf(&next)
	s.asked = call.RequestID
	s.announced.Kind = event.ContinueInput
	s.announced.Payload.Question, s.announced.Payload.Schema, s.announced.Payload.AskedIn = ask.Question, ask.Schema, call.RequestID
	s.results[0].Result = []byte(result)
	return next, s
}

// questionOf sends a call of book, and returns its question.
func questionOf(t *testing.T, b *bus.Bus) (record.ToolCall, *record.ToolAsk) {
	t.Helper()
	c := newCall(t, "site__book", `{}`)
	send(t, b, c)
	got := await(t, b, c)
	if got.Ask == nil || got.Ask.Question != "Your name?" || got.Status != event.ToolUnknown {
		t.Fatalf("got %+v, want a question", got)
	}
	if len(got.Events) != 1 || got.Events[0].Type != "looking" {
		t.Errorf("got %v, want the event before the question", got.Events)
	}
	return c, got.Ask
}

func TestTheAnswerToAQuestionContinuesTheCall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		change  func(*story, *record.ToolCall)
		status  event.ToolStatus
		content string
	}{
		{"with its answer", func(*story, *record.ToolCall) {}, event.ToolSuccess, "accept Ann"},
		{"with a denial, which declines", func(s *story, _ *record.ToolCall) { s.results[0].Status = event.ActionDenied }, event.ToolSuccess, "decline"},
		{"not without an answer", func(s *story, _ *record.ToolCall) { s.results = nil }, event.ToolDenied, "not given"},
		{"not with the answer to a question of another request", func(s *story, _ *record.ToolCall) {
			s.announced.Payload.AskedIn = id.New(id.Request)
		}, event.ToolDenied, "no longer kept"},
		{"not with other arguments", func(s *story, c *record.ToolCall) {
			c.Args = []byte(`{"x":1}`)
			c.ArgsHash, _ = record.HashArgs(c.Args)
			s.announced.Payload.ArgsHash = c.ArgsHash
		}, event.ToolDenied, "another call"},
	}
	b := bustest.New(t)
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: questioner(t)})
	for _, tt := range tests {
		c, ask := questionOf(t, b)
		next, s := continued(c, ask, `{"name":"Ann"}`)
		tt.change(s, &next)
		s.write(t, b)
		send(t, b, next)
		if got := await(t, b, next); got.Status != tt.status || !strings.Contains(got.Content, tt.content) {
			t.Errorf("%s: got %s, %q, want %s, %q", tt.name, got.Status, got.Content, tt.status, tt.content)
		}
	}
}

func TestAnExecutorHandsACallOnToTheOneThatHoldsIt(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	cfg := questioner(t)
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: cfg, Slots: 1})
	c, ask := questionOf(t, b)
	busy := newCall(t, "site__slow", `{}`) // takes the only slot of the executor that holds the call
	send(t, b, busy)
	for deadline := time.Now().Add(waitTimeout); ; {
		_, err := b.ToolStarted(t.Context(), logOf(busy), busy.ToolCallID)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the call that takes the slot does not start: %v", err)
		}
		<-time.After(10 * time.Millisecond)
	}
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: cfg, Slots: 1})
	next, s := continued(c, ask, `"Ann"`)
	s.write(t, b)
	send(t, b, next)
	if got := await(t, b, next); got.Status != event.ToolSuccess || got.Content != "accept Ann" {
		t.Errorf("got %s, %q", got.Status, got.Content)
	}
}

func TestACallIsUnknownWhoseExecutorHasEnded(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	cfg := questioner(t)
	stop := start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: cfg})
	c, ask := questionOf(t, b)
	stop()
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: cfg})
	next, s := continued(c, ask, `"Ann"`)
	s.write(t, b)
	send(t, b, next)
	if got := await(t, b, next); got.Status != event.ToolUnknown || !strings.Contains(got.Content, "no longer open") {
		t.Errorf("got %s, %q", got.Status, got.Content)
	}
}
