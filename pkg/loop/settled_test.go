package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// follower is a backend whose agent works without a follower: its chunks from the place on that a session resumes.
type follower struct {
	backend.Model
	chunks []backend.Chunk
	starts []backend.Start
}

func (f *follower) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	f.starts = append(f.starts, start)
	return &following{f, start}, nil
}

type following struct {
	agent *follower
	start backend.Start
}

func (*following) Stop(context.Context) error { return nil }

func (f *following) Send(_ context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	at := 0
	if f.start.State.ID != "" {
		at = slices.IndexFunc(f.agent.chunks, func(c backend.Chunk) bool { return stateOf(c) == f.start.State }) + 1
		if at == 0 {
			return backend.Outcome{}, fmt.Errorf("there is no place %q", f.start.State.ID)
		}
	}
	for _, c := range f.agent.chunks[at:] {
		if err := emit(c); err != nil {
			return backend.Outcome{}, err
		}
	}
	used := event.Usage{InputTokens: 30, OutputTokens: 9}.Sub(f.start.State.Used)
	return backend.Outcome{Finish: event.FinishStop, Model: "m1", Usage: used, State: backend.State{ID: "s1"}}, nil
}

func stateOf(c backend.Chunk) backend.State {
	switch c := c.(type) {
	case backend.State:
		return c
	case backend.Settled:
		return c.State
	default:
		return backend.State{}
	}
}

// afar is a task in which two tools overlap, with texts that take more than one block and tools that print.
func afar() []backend.Chunk {
	used := event.Usage{InputTokens: 10, OutputTokens: 5}
	at := func(n int, u event.Usage) backend.State { return backend.State{ID: fmt.Sprintf("task@%d", n), Used: u} }
	return []backend.Chunk{
		at(0, event.Usage{}),
		backend.TextDelta("I look. "), backend.TextDelta(strings.Repeat("long ", maxBlockBytes/4)),
		backend.Settled{Chunks: []backend.Chunk{backend.ToolStarted{ID: "c1", Name: "Read", Args: json.RawMessage(`{"path":"a"}`)}}, State: at(3, event.Usage{})},
		backend.Settled{Chunks: []backend.Chunk{backend.ToolStarted{ID: "c2", Name: "Bash"}}, State: at(4, event.Usage{})},
		backend.ToolProgress{ID: "c2", Delta: "one\n"}, backend.ToolProgress{ID: "c2", Delta: "two\n"},
		backend.Settled{Chunks: []backend.Chunk{backend.Step{Usage: used}}, State: at(6, used)},
		backend.ToolProgress{ID: "c2", Delta: "three\n"},
		backend.Settled{Chunks: []backend.Chunk{backend.ToolEnded{ID: "c1", Content: "A"}}, State: at(8, used)},
		backend.Settled{Chunks: []backend.Chunk{backend.ToolEnded{ID: "c2", Status: event.ToolFailed, Content: "no"}}, State: at(9, used)},
		backend.TextDelta("Done."),
	}
}

// A runner that dies anywhere in the task of an agent that works by itself: the next one writes what is missing, each
// text, call, result and line of output once.
func TestTakeoverOfAnAgentThatContinues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		play := func() (*thread, *follower) {
			th, f := newThread(t), &follower{chunks: afar()}
			th.backend = f
			th.say("do it")
			return th, f
		}
		first, _ := play()
		whole, ends := first.log.events, first.log.ends
		want := last[event.Done](t, whole)
		if len(want.Content) != 7 || want.Usage.InputTokens != 30 {
			t.Fatalf("the answer has %d parts and usage %+v", len(want.Content), want.Usage)
		}
		for _, n := range ends {
			if n < 2 || n == len(whole) {
				continue
			}
			th, f := play()
			th.takeover(nil, n)
			before := folded(th.log.events)
			if err := th.resume(t.Context()); err != nil {
				t.Fatalf("after %d events: %v", n, err)
			}
			got := last[event.Done](t, th.log.events)
			if !reflect.DeepEqual(calls(got.Content), calls(want.Content)) || got.Usage != want.Usage {
				t.Errorf("after %d events the answer is\n%.300v, %+v\nwant\n%.300v, %+v", n, calls(got.Content), got.Usage, calls(want.Content), want.Usage)
			}
			if len(f.starts) > 1 && f.starts[1].State != before.Session() {
				t.Errorf("after %d events it resumed %+v, want %+v", n, f.starts[1].State, before.Session())
			}
			usage := find[event.UsageSoFar](th.log.events)
			if turns := usage[len(usage)-1].Turns; len(usage) != 2 || turns != 2 {
				t.Errorf("after %d events %d turns are counted in %d events, want 2", n, turns, len(usage))
			}
			if open := unstopped(th.log.events); len(open) > 0 {
				t.Errorf("after %d events %v is left open", n, open)
			}
			if got, want := printed(th.log.events), "0one\n1two\n2three\n"; got != want {
				t.Errorf("after %d events the tool has printed %q, want %q", n, got, want)
			}
		}
	})
}

// calls are the parts of an answer without the ids of calls, of which each must have its result behind it.
func calls(content []event.Content) (parts []string) {
	ids := map[string]string{}
	for _, c := range content {
		if c.Type == event.ContentToolUse {
			ids[c.ToolCallID] = fmt.Sprintf("call %d", len(ids))
		}
		parts = append(parts, fmt.Sprintf("%s %s%s%s %s %d", c.Type, ids[c.ToolCallID], c.Name, c.Status, c.Summary, len(c.Text)))
	}
	return parts
}

// printed is what tools have printed, with the numbers of the deltas.
func printed(events []event.Event) string {
	var all strings.Builder
	for _, r := range find[event.ToolResult](events) {
		if r.Stage == event.StageDelta {
			fmt.Fprintf(&all, "%d%s", *r.DeltaIndex, r.Delta)
		}
	}
	return all.String()
}

// A program dies with its runner, and so do its tools: the call of each has a result nevertheless.
func TestAToolThatDiedWithItsRunnerHasAResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		th.backend = newWorker(errand())
		all := th.say("do it")
		for _, n := range th.log.ends {
			if n < 2 || n == len(all) {
				continue
			}
			th.log.events = all
			th.backend = newWorker([]backend.Chunk{backend.TextDelta("Finished.")})
			th.takeover(nil, n)
			if err := th.resume(t.Context()); err != nil {
				t.Fatalf("after %d events: %v", n, err)
			}
			results := map[string]event.ToolStatus{}
			content := last[event.Done](t, th.log.events).Content
			for _, c := range content {
				if c.Type == event.ContentToolResult {
					results[c.ToolCallID] = c.Status
				}
			}
			for _, c := range content {
				if c.Type == event.ContentToolUse && results[c.ToolCallID] == "" {
					t.Errorf("after %d events call %s has no result", n, c.Name)
				}
			}
		}
	})
}
