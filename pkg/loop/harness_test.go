package loop

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/scripted"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/transcript"
)

// thread is a conversation under test: the requests that it gets, and the log that each leaves.
type thread struct {
	t       *testing.T
	state   *transcript.State
	agent   Agent
	backend backend.Model
	tools   tools
	objects objects
	pending []event.Continuation
	aborted *Abort  // what is found when the loop asks
	steers  []Steer // and this
	leave   chan struct{}
	epoch   uint64
	log     *memoryLog
	prices  map[string]float64 // of an input token, by model; nil = all models cost nothing
}

func (th *thread) price(model string, usage event.Usage) (float64, bool) {
	price, ok := th.prices[model]
	return price * float64(usage.InputTokens), ok || th.prices == nil
}

func newThread(t *testing.T) *thread {
	return &thread{
		t: t, state: new(transcript.State), backend: scripted.New(), epoch: 1, objects: objects{},
		agent: Agent{
			Name: "demo", Model: "small", Turns: 20, CompressAt: 1_000_000, Time: 10 * time.Minute, ActionTTL: 24 * time.Hour,
			Tools: []tool.Spec{
				{Name: "calculator"}, {Name: "slow"}, {Name: "broken"}, {Name: "stubborn"}, {Name: "long"},
				{Name: "delete_file", Approval: tool.ApprovalAlways}, {Name: "pick_file", Client: true}, AskUser(),
				{Name: "metered"}, {Name: "sloppy"}, {Name: "reporting"}, Planning(), FinalAnswer(),
			},
		},
		tools: tools{
			"calculator": func(context.Context, backend.Call, func(Progress)) (Output, error) {
				return Output{Status: event.ToolSuccess, Content: "42", Summary: "42"}, nil
			},
			"slow": func(ctx context.Context, _ backend.Call, progress func(Progress)) (Output, error) {
				sleep(ctx, time.Second)
				progress(Progress{Delta: "half"})
				if !sleep(ctx, time.Second) {
					return Output{}, ctx.Err()
				}
				return Output{Status: event.ToolSuccess, Content: "slept", Summary: "slept", Elapsed: 2 * time.Second}, nil
			},
			"broken": func(context.Context, backend.Call, func(Progress)) (Output, error) { panic("out of cheese") },
			"stubborn": func(_ context.Context, _ backend.Call, progress func(Progress)) (Output, error) {
				time.Sleep(3 * time.Second)
				progress(Progress{Delta: "late"})
				return Output{Status: event.ToolSuccess, Content: "late"}, nil
			},
			"long": func(context.Context, backend.Call, func(Progress)) (Output, error) {
				return Output{Status: event.ToolSuccess, Content: strings.Repeat("long ", maxOutputBytes), Summary: "long"}, nil
			},
			"metered": func(context.Context, backend.Call, func(Progress)) (Output, error) {
				return Output{Status: event.ToolSuccess, Content: "7", Summary: "7", Events: []event.Custom{
					{Type: "metric", Data: json.RawMessage(`{"n":1}`)}, {Type: "done"}, {Type: "metric", Data: json.RawMessage(`{"n":2}`)},
				}}, nil
			},
			"sloppy": func(context.Context, backend.Call, func(Progress)) (Output, error) {
				return Output{Status: event.ToolSuccess, Content: "7", Summary: "7", Events: []event.Custom{
					{Type: "strict"}, {Type: "strict", Data: json.RawMessage(`{"n":2}`)},
				}}, nil
			},
			"reporting": func(ctx context.Context, _ backend.Call, progress func(Progress)) (Output, error) {
				all := []event.Custom{
					{Type: "metric", Data: json.RawMessage(`{"n":1}`)}, {Type: "strict"}, {Type: "metric", Data: json.RawMessage(`{"n":2}`)},
					{Type: "metric", Data: json.RawMessage(`{"n":3}`)}, {Type: "metric", Data: json.RawMessage(`{"n":4}`)},
				}
				for _, index := range []int{0, 1, 0, 2, 4} { // the first one comes twice, and the fourth one is lost
					progress(Progress{Event: &all[index], Index: index})
				}
				sleep(ctx, time.Second)
				return Output{Status: event.ToolSuccess, Content: "7", Summary: "7", Events: all}, nil
			},
			"delete_file": func(context.Context, backend.Call, func(Progress)) (Output, error) {
				return Output{Status: event.ToolSuccess, Content: "deleted", Summary: "deleted"}, nil
			},
		},
	}
}

// say runs a request with one message, and returns its log.
func (th *thread) say(text string) []event.Event {
	return th.request(event.AgentRequest{Messages: []event.InputMessage{event.UserText(text)}})
}

// answer runs a request with the result of an action.
func (th *thread) answer(results ...event.ActionResult) []event.Event {
	return th.request(event.AgentRequest{Context: event.Context{ActionResults: results}})
}

func (th *thread) request(request event.AgentRequest) []event.Event {
	th.t.Helper()
	if err := th.run(th.t.Context(), request); err != nil {
		th.t.Fatalf("run: %v", err)
	}
	return th.log.events
}

// run runs a new request.
func (th *thread) run(ctx context.Context, request event.AgentRequest) error {
	n := 1
	if th.log != nil {
		n = th.log.request + 1
	}
	th.log = &memoryLog{request: n}
	th.put(event.Claim{Epoch: 1, Runner: "r1"})
	th.put(event.Input{ThreadID: "thr_1", AgentID: "demo", Messages: request.Messages, ActionResults: request.Context.ActionResults})
	return th.resume(ctx)
}

// resume runs the newest request from the end of its log.
func (th *thread) resume(ctx context.Context) error {
	return Run(ctx, Request{
		RequestID: th.log.id(), ThreadID: "thr_1", Epoch: th.epoch, Agent: th.agent, State: th.state,
		Backend: th.opens(), Log: th.log, Tools: th.tools, Objects: th.objects, Actions: th,
		ReadCommands:   func(context.Context) (*Abort, []Steer) { return th.aborted, th.steers },
		HandOver:       th.leave,
		Price:          th.price,
		ValidateCustom: strict,
		Logger:         slog.New(slog.DiscardHandler),
	})
}

// strict lets every event pass but those of type strict that have no n.
func strict(e event.Custom) error {
	if e.Type == "strict" && !strings.Contains(string(e.Data), `"n"`) {
		return errors.New("n is missing\n(it is a number)")
	}
	return nil
}

// opens gives the backend, which may keep sessions.
func (th *thread) opens() backend.Backend {
	if b, ok := th.backend.(backend.Backend); ok {
		return b
	}
	return backend.Stateless(th.backend)
}

// takeover lets another runner continue from the first n events of the newest log, after the requests before.
func (th *thread) takeover(before []event.Event, n int) {
	th.state = new(transcript.State)
	th.state.Fold(before...)
	th.log = &memoryLog{request: th.log.request, events: th.log.events[:n:n]}
	th.state.Fold(th.log.events...)
	th.epoch++
	th.put(event.Claim{Epoch: th.epoch, Runner: "r2"})
}

func (th *thread) put(body event.Body) {
	_ = th.log.Emit(body)
	th.state.Fold(th.log.events[len(th.log.events)-1])
}

func (th *thread) Put(_ context.Context, actions []event.Continuation) { th.pending = actions }

// memoryLog is a log with one writer.
type memoryLog struct {
	request int

	mu     sync.Mutex
	events []event.Event
	ends   []int // numbers of events after which a runner may have died: what is emitted together is stored together
	lost   error // what Emit returns from now on
}

func (l *memoryLog) id() string { return "req_" + string(rune('0'+l.request)) }

func (l *memoryLog) Emit(bodies ...event.Body) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	for _, body := range bodies {
		l.events = append(l.events, event.Event{
			ID: event.NewCursor("t", uint64(len(l.events))), RequestID: l.id(), Time: time.Now(), Body: body,
		})
	}
	l.ends = append(l.ends, len(l.events))
	return nil
}

func (l *memoryLog) Flush(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// tools runs calls in the test's process.
type tools map[string]func(context.Context, backend.Call, func(Progress)) (Output, error)

func (t tools) Call(ctx context.Context, call backend.Call, _ string, progress func(Progress)) (Output, error) {
	do, ok := t[call.Name]
	if !ok {
		return Output{}, errors.New("the loop dispatched a tool that does not exist: " + call.Name)
	}
	return do(ctx, call, progress)
}

type objects map[string][]byte

func (o objects) PutObject(_ context.Context, data []byte) (event.ObjectRef, error) {
	o["obj"] = data
	return event.ObjectRef{Object: "obj", Size: int64(len(data)), SHA256: "-"}, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// backendFunc is a backend of one function.
type backendFunc func(context.Context, backend.Turn, backend.Emit) (backend.Outcome, error)

func (f backendFunc) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	return f(ctx, turn, emit)
}

// find returns the bodies of one type, in order.
func find[B event.Body](events []event.Event) []B {
	var found []B
	for _, e := range events {
		if b, ok := e.Body.(B); ok {
			found = append(found, b)
		}
	}
	return found
}

// last returns the terminal event, which must be a B and the only one.
func last[B event.Body](t *testing.T, events []event.Event) B {
	t.Helper()
	terminals := 0
	for _, e := range events {
		if event.IsTerminal(e.Body) {
			terminals++
		}
	}
	b, ok := events[len(events)-1].Body.(B)
	if !ok || terminals != 1 {
		t.Fatalf("the log ends with %s and has %d terminal events, want one %T at its end:\n%s",
			events[len(events)-1].Body.Name(), terminals, b, lines(events))
	}
	return b
}

// lines gives events as JSON lines.
func lines(events []event.Event) string {
	var b strings.Builder
	for _, e := range events {
		line, err := event.Encode(e)
		if err != nil {
			line = []byte(err.Error())
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// texts gives the texts of an answer.
func texts(content []event.Content) string {
	var parts []string
	for _, c := range content {
		if c.Type == event.ContentText {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "|")
}

func folded(events []event.Event) *transcript.State {
	s := new(transcript.State)
	s.Fold(events...)
	return s
}
