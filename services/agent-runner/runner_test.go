package agentrunner_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/remote"
	"github.com/agentbus/agentbus/pkg/backend/scripted"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/pkg/tool"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
)

const tenant = "acme"

// stack is a bus with everything around it that a runner needs.
type stack struct {
	t       *testing.T
	bus     *bus.Bus
	link    func(*agentrunner.Bus) // replaces parts of the bus; nil = none
	history *history
	actions *actions
	redis   agentrunner.Actions
	grace   time.Duration
	leave   time.Duration // Deps.HandOver
	hub     remote.Hub    // nil = no agents on other machines
	sweep   time.Duration
	slots   int
	backend backend.Model
	agents  map[string]config.Agent
	newest  bus.ThreadRecord
	called  chan record.ToolCall // what executors get; nil = not recorded
	n       int
}

func newStack(t *testing.T) *stack {
	t.Helper()
	return newStackOn(t, bustest.New(t))
}

func newStackOn(t *testing.T, b *bus.Bus) *stack {
	redis := &actions{open: map[string]rediscache.Action{}}
	return &stack{
		t: t, bus: b, history: &history{bus: b}, actions: redis, redis: redis,
		grace: 10 * time.Second, sweep: time.Hour, slots: 4, backend: scripted.New(),
		agents: map[string]config.Agent{"demo": {
			Backend: "scripted", Model: "scripted", Tools: []string{"calculator", "slow", "delete_file", "silent"}, AskUser: true,
			ClientTools: []config.ClientTool{{Name: "pick_file"}},
		}},
	}
}

// runner starts a runner and an executor for its tools. Both end when stop is called, or with the test.
func (s *stack) runner(name string) (stop func()) {
	s.t.Helper()
	specs := map[string]tool.Spec{}
	for _, spec := range []tool.Spec{
		{Name: "calculator", Schema: json.RawMessage(`{"type":"object"}`)},
		{Name: "slow", Schema: json.RawMessage(`{"type":"object"}`)},
		{Name: "delete_file", Schema: json.RawMessage(`{"type":"object"}`), Approval: tool.ApprovalAlways},
		{Name: "silent", Schema: json.RawMessage(`{"type":"object"}`), Approval: tool.ApprovalAlways, Timeout: time.Second},
	} {
		specs[spec.Name] = spec
	}
	parts := agentrunner.BusOf(s.bus)
	if s.link != nil {
		s.link(&parts)
	}
	r, err := agentrunner.New(agentrunner.Deps{
		Bus: parts, History: s.history, Actions: s.redis, Specs: specs,
		Config:   config.Config{Agents: s.agents, Models: map[string]config.Model{"scripted": {Price: config.Price{Input: 1, Output: 1}}}},
		Backends: map[string]backend.Backend{"demo": backend.Stateless(s.backend)},
		Log:      slog.New(slog.DiscardHandler), Slots: s.slots, Name: name, Build: "test", Grace: s.grace,
		HandOver: s.leave, Sweep: s.sweep, Hub: s.hub,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			s.t.Errorf("run: %v", err)
		}
	})
	execute := func(call context.Context, c record.ToolCall) error { return s.execute(call, ctx.Done(), c) }
	running.Go(func() {
		if err := s.bus.ConsumeToolCalls(ctx, 4, execute); err != nil && ctx.Err() == nil {
			s.t.Errorf("tool calls: %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	s.t.Cleanup(stop)
	return stop
}

// execute replaces a tool-executor. Its tools slow and silent take until the executor stops.
func (s *stack) execute(ctx context.Context, stopped <-chan struct{}, c record.ToolCall) error {
	log := bus.LogID{Tenant: c.Tenant, RequestID: c.RequestID}
	result := record.ToolResult{ToolCallID: c.ToolCallID, Status: event.ToolSuccess, Content: "42", Summary: "42"}
	if s.called != nil {
		s.called <- c
	}
	switch c.Tool {
	case "slow", "silent":
		<-stopped
		return bus.ErrLeave
	case "agent__helper": // which no executor runs
		result.Content = record.ChildRequest(c.RequestID, c.ToolCallID)
	case "delete_file":
		result.Content, result.Summary = "deleted, allowed by "+c.Approved, "deleted"
	}
	_, _, err := s.bus.PutToolResult(ctx, log, result)
	return err
}

// say accepts a request with one message on the thread.
func (s *stack) say(text string) bus.LogID {
	s.t.Helper()
	return s.accept(event.AgentRequest{Messages: []event.InputMessage{event.UserText(text)}})
}

// answer accepts a request with the result of an action.
func (s *stack) answer(result event.ActionResult) bus.LogID {
	s.t.Helper()
	return s.accept(event.AgentRequest{Context: event.Context{ActionResults: []event.ActionResult{result}}})
}

// accept does what a gateway does with a request.
func (s *stack) accept(request event.AgentRequest) bus.LogID {
	s.t.Helper()
	accepted, next := s.record(request)
	s.append(accepted, next)
	if err := s.bus.Start(s.t.Context(), accepted, next.Index); err != nil {
		s.t.Fatal(err)
	}
	return bus.LogID{Tenant: tenant, RequestID: accepted.RequestID}
}

// record makes the records of the thread's next request.
func (s *stack) record(request event.AgentRequest) (record.Accepted, record.Thread) {
	s.n++
	id := "req_" + string(rune('a'+s.n-1))
	accepted := record.Accepted{Tenant: tenant, RequestID: id, ThreadID: "thr_1", AgentID: "demo", Owner: "me", Request: request, At: time.Now()}
	next := record.Thread{ThreadID: "thr_1", Owner: "me", AgentID: "demo", RequestID: id, Index: s.n - 1, At: time.Now()}
	return accepted, next
}

func (s *stack) append(accepted record.Accepted, next record.Thread) {
	s.t.Helper()
	if _, _, err := s.bus.Accept(s.t.Context(), accepted); err != nil {
		s.t.Fatal(err)
	}
	var err error
	if s.newest, err = s.bus.AdvanceThread(s.t.Context(), tenant, next, s.newest.Sequence); err != nil {
		s.t.Fatal(err)
	}
}

// limit bounds the time of the demo agent's requests.
func (s *stack) limit(d time.Duration) {
	a := s.agents["demo"]
	a.Limits.Time = config.Duration(d)
	s.agents["demo"] = a
}

// until follows a log until an event fits, and returns the events up to there.
func (s *stack) until(log bus.LogID, fits func(event.Body) bool) []event.Event {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	f, err := s.bus.Follow(ctx, log, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	var events []event.Event
	for {
		frame, err := f.Next(ctx, time.Second)
		if errors.Is(err, bus.ErrIdle) {
			continue
		}
		if err != nil {
			s.t.Fatalf("follow %s: %v; got %v", log.RequestID, err, names(events))
		}
		some, err := frame.Events()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range some {
			events = append(events, e)
			if fits(e.Body) {
				return events
			}
		}
	}
}

// end follows a log to its end, which must be a B.
func end[B event.Body](s *stack, log bus.LogID) (B, []event.Event) {
	s.t.Helper()
	events := s.until(log, event.IsTerminal)
	b, ok := events[len(events)-1].Body.(B)
	if !ok {
		s.t.Fatalf("%s ended with %#v, want a %T", log.RequestID, events[len(events)-1].Body, b)
	}
	return b, events
}

func names(events []event.Event) []event.Name {
	list := make([]event.Name, len(events))
	for i, e := range events {
		list[i] = e.Body.Name()
	}
	return list
}

func texts(content []event.Content) string {
	var parts []string
	for _, c := range content {
		if c.Type == event.ContentText {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "|")
}

// history answers from the stream, as the real one would from its database, unless it is down.
type history struct {
	bus  *bus.Bus
	down bool
	asks int

	mu   sync.Mutex
	open []historyapi.OpenRequest // what it takes for open: it may be wrong
}

func (h *history) Open(context.Context, historyapi.OpenQuery) (historyapi.OpenPage, error) {
	if h.down {
		return historyapi.OpenPage{}, apierr.New(apierr.Unavailable, "history is down")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return historyapi.OpenPage{Requests: slices.Clone(h.open)}, nil
}

// lists says that the history takes a request for open.
func (h *history) lists(log bus.LogID, created time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = append(h.open, historyapi.OpenRequest{
		RequestRef: historyapi.RequestRef{Tenant: log.Tenant, RequestID: log.RequestID},
		ThreadID:   "thr_1", AgentID: "demo", CreatedAt: created,
	})
}

func (h *history) Transcript(ctx context.Context, q historyapi.TranscriptQuery) (historyapi.TranscriptAnswer, error) {
	h.asks++
	var answer historyapi.TranscriptAnswer
	if h.down {
		return answer, apierr.New(apierr.Unavailable, "history is down")
	}
	for record, err := range h.bus.ThreadRecords(ctx, q.Tenant, q.ThreadID, 0) {
		if err != nil {
			return answer, err
		}
		if record.Index >= q.Before {
			break
		}
		request := historyapi.RequestEvents{RequestID: record.RequestID}
		for f, err := range h.bus.Read(ctx, bus.LogID{Tenant: q.Tenant, RequestID: record.RequestID}, 0) {
			if err != nil {
				return answer, err
			}
			for line := range f.Each() {
				isDelta := strings.Contains(string(line.JSON), `"stage":"delta"`)
				if !isDelta && line.Name != event.NameClaim {
					request.Events = append(request.Events, slices.Clone(line.JSON))
				}
			}
		}
		answer.Requests = append(answer.Requests, request)
	}
	return answer, nil
}

// actions is Redis, more or less.
type actions struct {
	mu   sync.Mutex
	open map[string]rediscache.Action
}

func (a *actions) PutActions(_ context.Context, list ...rediscache.Action) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, action := range list {
		a.open[action.ActionID] = action
	}
	return nil
}

func (a *actions) DropActions(_ context.Context, _ string, ids ...string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		delete(a.open, id)
	}
	return nil
}

func (a *actions) only(t *testing.T) rediscache.Action {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) != 1 {
		t.Fatalf("%d actions are remembered, want 1", len(a.open))
	}
	for _, action := range a.open {
		return action
	}
	panic("unreachable")
}
