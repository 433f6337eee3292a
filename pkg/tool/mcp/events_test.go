package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/mcp"
)

// shown collects what a call shows while it runs.
type shown struct {
	mu     sync.Mutex
	events []string
	lines  []string
}

func (s *shown) call(args string) tool.Call {
	return tool.Call{
		ID: "call_1", Args: json.RawMessage(args),
		Progress: func(line string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.lines = append(s.lines, line)
		},
		Emit: func(e event.Custom) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, e.Type+" "+string(e.Data))
		},
	}
}

func typesOf(events []event.Custom) (all []string) {
	for _, e := range events {
		all = append(all, e.Type+" "+string(e.Data))
	}
	return all
}

func TestToolsEmitEventsWhileTheyRun(t *testing.T) {
	t.Parallel()
	const steps = 500
	want := []string{`first {"by":"line"}`}
	for i := range steps {
		want = append(want, fmt.Sprintf(`step {"n":%d}`, i))
	}
	for name, o := range map[string]mcp.Options{"stdio": process(t), "http": serve(t).options()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Events = true
			r := run(t, o)
			emit, err := r.Tool(t.Context(), o.Name+"__emit")
			if err != nil {
				t.Fatal(err)
			}
			var got shown
			result, err := emit.Call(t.Context(), got.call(fmt.Sprintf(`{"n":%d}`, steps)))
			got.mu.Lock()
			defer got.mu.Unlock()
			if all := typesOf(result.Events); err != nil || result.Content != "emitted" || !slices.Equal(all, want) || !slices.Equal(got.events, want) {
				t.Errorf("got %q, %v, %d events of the result and %d shown, want %d of each, in order", result.Content, err, len(all), len(got.events), len(want))
			}
			refused := []string{"[not an event: custom event \"done\": an event of the protocol has this name; choose another]\n"}
			if !slices.Equal(got.lines, refused) {
				t.Errorf("got the output %q, want only why an event was refused: %q", got.lines, refused)
			}
		})
	}
}

// TestAllProgressPrecedesTheResult has no events configured: each notification is a line.
func TestAllProgressPrecedesTheResult(t *testing.T) {
	both(t, func(t *testing.T, r running) {
		emit, err := r.Tool(t.Context(), r.Name()+"__emit")
		if err != nil {
			t.Fatal(err)
		}
		var got shown
		result, err := emit.Call(t.Context(), got.call(`{"n":500}`))
		got.mu.Lock()
		defer got.mu.Unlock()
		if err != nil || len(result.Events) > 0 || len(got.events) > 0 {
			t.Errorf("got %v, %q and %q, want no events", err, result.Events, got.events)
		}
		if want := 500 + 2; len(got.lines) != want || got.lines[want-1] != "502\n" {
			t.Errorf("got %d lines of output, the last one %q, want %d", len(got.lines), got.lines[len(got.lines)-1:], want)
		}
	})
}

func TestEventsOfOneCallHaveALimit(t *testing.T) {
	t.Parallel()
	o := serve(t).options()
	o.Events = true
	r := run(t, o)
	emit, err := r.Tool(t.Context(), "site__emit")
	if err != nil {
		t.Fatal(err)
	}
	var got shown
	result, err := emit.Call(t.Context(), got.call(`{"n":12000}`))
	size := 0
	for _, e := range result.Events {
		size += len(e.Type) + len(e.Data)
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	if err != nil || size > tool.MaxEventBytes || size < tool.MaxEventBytes-100 || len(got.events) != len(result.Events) {
		t.Errorf("got %v, %d bytes of %d events, %d shown", err, size, len(result.Events), len(got.events))
	}
	if !slices.ContainsFunc(got.lines, func(line string) bool { return strings.Contains(line, "at most 131072 bytes") }) {
		t.Errorf("got %.300q, want the reason in the output", got.lines)
	}
}

func TestACallThatAsksEmitsBeforeAndAfter(t *testing.T) {
	t.Parallel()
	o := asking(t, true)
	o.Events = true
	r := run(t, o)
	book, err := r.Tool(t.Context(), "site__book")
	if err != nil {
		t.Fatal(err)
	}
	var before, after shown
	asked, err := book.Call(t.Context(), before.call(`{}`))
	if err != nil || asked.Ask == nil || !slices.Equal(typesOf(asked.Events), []string{"looking {}"}) || !slices.Equal(before.events, []string{"looking {}"}) {
		t.Fatalf("got %+v, %v, shown %q; want a question after one event", asked, err, before.events)
	}
	next := after.call(`{}`)
	next.Answer = &tool.Answer{Ask: *asked.Ask, Result: given(event.ActionSuccess, `{"name":"Ann"}`)}
	end, err := book.Call(context.WithoutCancel(t.Context()), next)
	if err != nil || !slices.Equal(typesOf(end.Events), []string{"answered {}"}) || !slices.Equal(after.events, []string{"answered {}"}) {
		t.Errorf("got %+v, %v, shown %q; want one event after the answer", end, err, after.events)
	}
}
