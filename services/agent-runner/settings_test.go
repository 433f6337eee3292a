package agentrunner_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/scripted"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
)

// turnLog records the turns that a scripted backend is asked for.
type turnLog struct {
	mu    sync.Mutex
	turns []backend.Turn
}

// Run implements backend.Model.
func (l *turnLog) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	l.mu.Lock()
	l.turns = append(l.turns, turn)
	l.mu.Unlock()
	return scripted.New().Run(ctx, turn, emit)
}

func (l *turnLog) last() backend.Turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns[len(l.turns)-1]
}

func (l *turnLog) first() backend.Turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns[0]
}

// configure changes the demo agent.
func (s *stack) configure(change func(*config.Agent)) {
	demo := s.agents["demo"]
	change(&demo)
	s.agents["demo"] = demo
}

func hasTool(turn backend.Turn, name string) bool {
	return slices.ContainsFunc(turn.Tools, func(t tool.Spec) bool { return t.Name == name && t.Client })
}

// locating is a request that declares a tool, with options, instructions and a context.
func locating(script string) event.AgentRequest {
	return event.AgentRequest{
		Messages: []event.InputMessage{event.UserText(script)},
		Tools: []event.RequestTool{
			{Name: "locate", Description: "Where the user is.", Schema: json.RawMessage(`{"type":"object"}`)},
			{Name: "calculator", Description: "of the client"},
		},
		Options: event.RequestOptions{
			Temperature: new(0.25), MaxTokens: 500, ToolChoice: &event.ToolChoice{Mode: event.ChooseTool, Name: "locate"},
		},
		Context: event.Context{Extra: event.NewMembers([]byte(`{"user":{"name":"Ada"}}`))},
	}
}

func TestAToolOfARequestIsCalledAndAnswered(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.configure(func(a *config.Agent) {
		a.System, a.MaxTokens = "You help {context.user.name} of {context.company}.", 300
	})
	log := &turnLog{}
	s.backend, s.called = log, make(chan record.ToolCall, 8)
	s.runner("r1")
	_, events := end[event.Done](s, s.accept(locating("/tool calculator {}\n/tool locate {\"precision\":\"city\"}\n/say there")))
	i := slices.IndexFunc(events, func(e event.Event) bool { return e.Body.Name() == event.NameContinuation })
	if i < 0 {
		t.Fatalf("no action was announced: %v", names(events))
	}
	action := events[i].Body.(event.Continuation)
	if action.Kind != event.ContinueTool || action.Payload.Tool != "locate" || string(action.Payload.Args) != `{"precision":"city"}` {
		t.Errorf("got %+v", action)
	}
	first := log.first()
	if !hasTool(first, "locate") || hasTool(first, "calculator") {
		t.Errorf("the model may call %+v, want locate of the client and calculator of the server", first.Tools)
	}
	if first.System != "You help Ada of ." || first.MaxTokens != 300 || *first.Request.Temperature != 0.25 || first.Request.ToolChoice == nil {
		t.Errorf("the first turn has system %q, maxTokens %d, options %+v", first.System, first.MaxTokens, first.Request)
	}
	if call := <-s.called; string(call.Context) != `{"user":{"name":"Ada"}}` {
		t.Errorf("the executor got the context %s", call.Context)
	}
	if later := log.last(); later.Request.ToolChoice != nil {
		t.Errorf("a later turn must call %+v", later.Request.ToolChoice)
	}
	done, _ := end[event.Done](s, s.answer(event.ActionResult{ActionID: action.ActionID, Status: event.ActionSuccess, Result: []byte(`"Oslo"`)}))
	if done.FinishReason != event.FinishStop {
		t.Errorf("got %+v", done)
	}
	last := log.last()
	if !hasTool(last, "locate") || last.System != "You help Ada of ." || *last.Request.Temperature != 0.25 {
		t.Errorf("the continuation has tools %+v, system %q, options %+v", last.Tools, last.System, last.Request)
	}
	result, ok := last.Messages[len(last.Messages)-1].Parts[0].(backend.Result)
	if !ok || result.Content != "Oslo" {
		t.Errorf("the model read %+v", last.Messages)
	}
	end[event.Done](s, s.say("/say bye"))
	if next := log.last(); hasTool(next, "locate") || next.System != "You help  of ." || next.Request.Temperature != nil {
		t.Errorf("the next request has tools %+v, system %q, options %+v", next.Tools, next.System, next.Request)
	}
}

func TestToolsOfARequestSurviveATakeover(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.grace = time.Millisecond
	log := &turnLog{}
	s.backend = log
	stop := s.runner("r1")
	request := s.accept(locating("/say first\n/stream 50 20\n/tool locate {}"))
	s.until(request, isText)
	stop()
	before := log.last()
	s.grace = 10 * time.Second
	s.runner("r2")
	asked := s.until(request, func(b event.Body) bool {
		c, ok := b.(event.Continuation)
		return ok && c.Payload.Tool == "locate"
	})
	if len(asked) == 0 || !hasTool(before, "locate") || !hasTool(log.last(), "locate") {
		t.Errorf("the tools were %+v, and after the takeover %+v", before.Tools, log.last().Tools)
	}
}

func TestAnAgentRefusesToolsAndChoices(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.configure(func(a *config.Agent) { a.RequestTools = config.RequestToolsRefuse })
	s.runner("r1")
	failed, _ := end[event.Error](s, s.accept(locating("/say hi")))
	if failed.Code != apierr.InvalidMessageFormat || !strings.Contains(failed.Message, "accepts no tools") {
		t.Errorf("got %+v", failed)
	}
	failed, _ = end[event.Error](s, s.accept(event.AgentRequest{
		Messages: []event.InputMessage{event.UserText("/say hi")},
		Options:  event.RequestOptions{ToolChoice: &event.ToolChoice{Mode: event.ChooseTool, Name: "locate"}},
	}))
	if failed.Code != apierr.InvalidMessageFormat || !strings.Contains(failed.Message, "toolChoice.name locate") {
		t.Errorf("got %+v", failed)
	}
}

func TestTheModelReadsAnImportedHistory(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	log := &turnLog{}
	s.backend = log
	s.runner("r1")
	accepted, next := s.record(event.AgentRequest{Messages: []event.InputMessage{event.UserText("/say three")}})
	accepted.History = []event.HistoryMessage{
		{Role: event.RoleUser, Content: event.UserText("one").Content},
		{Role: event.RoleAssistant, Content: event.UserText("two").Content},
	}
	accepted.System = "Answer in Norwegian."
	s.append(accepted, next)
	if err := s.bus.Start(t.Context(), accepted, next.Index); err != nil {
		t.Fatal(err)
	}
	end[event.Done](s, bus.LogID{Tenant: tenant, RequestID: accepted.RequestID})
	if turn := log.last(); len(turn.Messages) != 3 || turn.System != "Answer in Norwegian." {
		t.Errorf("the model read %q, %+v", turn.System, turn.Messages)
	}
	end[event.Done](s, s.say("/say four"))
	if turn := log.last(); len(turn.Messages) != 5 || turn.Messages[0].Parts[0] != (backend.Text{Text: "one"}) || turn.System != "" {
		t.Errorf("the next request read %q, %+v", turn.System, turn.Messages)
	}
}
