package toolexecutor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

// waitTimeout bounds every wait of these tests.
const waitTimeout = 20 * time.Second

// probe is a tool that does what a test says, and counts how often.
type probe struct {
	spec tool.Spec
	do   func(ctx context.Context, call tool.Call) (tool.Result, error)
	runs atomic.Int32
}

func newProbe(effect tool.Effect, do func(context.Context, tool.Call) (tool.Result, error)) *probe {
	return &probe{do: do, spec: tool.Spec{
		Name: "probe", Description: "Does what a test says.", Schema: json.RawMessage(`{"type":"object"}`),
		Effect: effect, Approval: tool.ApprovalNever,
	}}
}

func (p *probe) Spec() tool.Spec { return p.spec }

func (p *probe) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	p.runs.Add(1)
	return p.do(ctx, call)
}

func says(text string) func(context.Context, tool.Call) (tool.Result, error) {
	return func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Content: text}, nil }
}

func waits(ctx context.Context, _ tool.Call) (tool.Result, error) {
	<-ctx.Done()
	return tool.Result{}, ctx.Err()
}

// start runs an executor until the returned function is called, which waits for it; at the latest until the test ends.
func start(t *testing.T, deps toolexecutor.Deps) (stop func()) {
	t.Helper()
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	e, err := toolexecutor.New(deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func newCall(t *testing.T, name, args string) record.ToolCall {
	t.Helper()
	hash, err := record.HashArgs(json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	return record.ToolCall{
		Tenant: "t", RequestID: id.New(id.Request), ThreadID: id.New(id.Thread), AgentID: "demo", ToolCallID: id.New(id.Call),
		Tool: name, Args: json.RawMessage(args), ArgsHash: hash,
	}
}

func logOf(c record.ToolCall) bus.LogID { return bus.LogID{Tenant: c.Tenant, RequestID: c.RequestID} }

func send(t *testing.T, b *bus.Bus, c record.ToolCall) {
	t.Helper()
	if err := b.CallTool(t.Context(), builtin.Toolset, c); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, b *bus.Bus, c record.ToolCall) record.ToolResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	result, err := b.AwaitToolResult(ctx, logOf(c), c.ToolCallID, func(record.ToolProgress) {})
	if err != nil {
		t.Fatalf("no result of call %s: %v", c.ToolCallID, err)
	}
	return result
}

func TestACallHasItsResult(t *testing.T) {
	t.Parallel()
	approval := newProbe(tool.EffectNone, says("ran")).spec
	approval.Approval = tool.ApprovalAlways
	tests := []struct {
		name    string
		probe   *probe // nil = a built-in tool
		tool    string
		args    string
		change  func(*record.ToolCall)
		status  event.ToolStatus
		content string // a part
		runs    int32
	}{
		{"of a built-in tool", nil, "calculator", `{"expression":"6*7"}`, nil, event.ToolSuccess, "42", 0},
		{"of bad arguments, which says how to do better", nil, "calculator", `{"expr":"6*7"}`, nil, event.ToolFailed,
			`expected {"expression": string}`, 0},
		{"of an unknown tool, which lists what exists", newProbe("", says("")), "calc", `{}`, nil, event.ToolFailed,
			`no tool "calc"; the tools are: calculator, clock, echo, http_get, probe10, `, 0},
		{"of an invalid name", nil, "../x; rm -rf /", `{}`, nil, event.ToolFailed, "the tools are", 0},
		{"of arguments that changed", newProbe("", says("ran")), "probe", `{"to":"eve"}`,
			func(c *record.ToolCall) { c.Args = json.RawMessage(`{"to":"mallory"}`) }, event.ToolFailed, "not the ones", 0},
		{"of arguments that are spaced and ordered otherwise", newProbe("", says("ran")), "probe", `{"a":1,"b":2}`,
			func(c *record.ToolCall) { c.Args = json.RawMessage(`{ "b": 2.0, "a": 1 }`) }, event.ToolSuccess, "ran", 1},
		{"of a call without a hash", newProbe("", says("ran")), "probe", `{}`,
			func(c *record.ToolCall) { c.ArgsHash = "" }, event.ToolFailed, "not the ones", 0},
		{"of a deadline that has passed", newProbe("", says("ran")), "probe", `{}`,
			func(c *record.ToolCall) { c.Deadline = time.Now().Add(-time.Second) }, event.ToolFailed, "deadline", 0},
		{"of a deadline that passes", newProbe("", waits), "probe", `{}`,
			func(c *record.ToolCall) { c.Deadline = time.Now().Add(500 * time.Millisecond) }, event.ToolFailed, "took too long", 1},
		{"of a missing approval", &probe{spec: approval, do: says("ran")}, "probe", `{}`, nil, event.ToolDenied, "approval", 0},
		{"of an approval that is only claimed", &probe{spec: approval, do: says("ran")}, "probe", `{}`,
			func(c *record.ToolCall) { c.Approved = "act_1" }, event.ToolDenied, "no client has acted on it", 0},
		{"of an unsafe tool", newProbe(tool.EffectUnsafe, says("ran")), "probe", `{}`, nil, event.ToolSuccess, "ran", 1},
		{"of an unsafe tool that takes too long, with an unknown outcome", newProbe(tool.EffectUnsafe, waits), "probe", `{}`,
			func(c *record.ToolCall) { c.Deadline = time.Now().Add(500 * time.Millisecond) }, event.ToolUnknown, "may or may not", 1},
		{"of a tool that says why it failed", newProbe("", func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{}, apierr.New(apierr.ToolError, "no such city")
		}), "probe", `{}`, nil, event.ToolFailed, "no such city", 1},
		{"of an unsafe tool that says why it failed", newProbe(tool.EffectUnsafe, func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{}, apierr.New(apierr.ToolError, "no such city")
		}), "probe", `{}`, nil, event.ToolFailed, "no such city", 1},
		{"of a tool that fails otherwise, without the text", newProbe("", func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{}, errors.New("password hunter2")
		}), "probe", `{}`, nil, event.ToolFailed, "the operator can see why", 1},
		{"of a tool that panics", newProbe("", func(context.Context, tool.Call) (tool.Result, error) { panic("hunter2") }),
			"probe", `{}`, nil, event.ToolFailed, "broke down", 1},
		{"of an unsafe tool that panics, with an unknown outcome", newProbe(tool.EffectUnsafe,
			func(context.Context, tool.Call) (tool.Result, error) { panic("hunter2") }), "probe", `{}`, nil, event.ToolUnknown, "may or may not", 1},
	}
	b := bustest.New(t)
	var probes []tool.Tool
	for i, test := range tests {
		if test.probe != nil {
			test.probe.spec.Name = fmt.Sprint("probe", i)
			probes = append(probes, test.probe)
		}
	}
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: probes}) // one for all the cases: none of them may end it
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			name := test.tool
			if test.probe != nil && name == "probe" {
				name = test.probe.spec.Name
			}
			c := newCall(t, name, test.args)
			if test.change != nil {
				test.change(&c)
			}
			send(t, b, c)
			result := await(t, b, c)
			if result.Status != test.status || !strings.Contains(result.Content, test.content) {
				t.Errorf("got %s %q, want %s with %q", result.Status, result.Content, test.status, test.content)
			}
			if strings.Contains(result.Content+result.Summary, "hunter2") {
				t.Error("the result contains a secret")
			}
			if result.Summary == "" {
				t.Error("the summary is empty")
			}
			if test.probe != nil && test.probe.runs.Load() != test.runs {
				t.Errorf("the tool ran %d times, want %d", test.probe.runs.Load(), test.runs)
			}
		})
	}
}

func TestConfigurationChangesBuiltInTools(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: config.Config{Tools: map[string]config.Tool{
		"clock": {Approval: tool.ApprovalAlways},
		"echo":  {MaxOutput: 5, Timeout: config.Duration(300 * time.Millisecond), Effect: tool.EffectUnsafe},
	}}})
	tests := []struct {
		name, tool, args string
		status           event.ToolStatus
		content          string
	}{
		{"approval", "clock", `{}`, event.ToolDenied, "approval"},
		{"output", "echo", `{"text":"123456789"}`, event.ToolSuccess, "12345\n[cut: these are the first 5 of 9 bytes]"},
		{"time and effect", "echo", `{"delay":"1m"}`, event.ToolUnknown, ""},
	}
	for _, test := range tests {
		c := newCall(t, test.tool, test.args)
		send(t, b, c)
		result := await(t, b, c)
		if result.Status != test.status || !strings.Contains(result.Content, test.content) {
			t.Errorf("%s: got %s %q, want %s with %q", test.name, result.Status, result.Content, test.status, test.content)
		}
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	bad := newProbe("", says(""))
	bad.spec.Schema = json.RawMessage(`{"type":"string"}`)
	clash := newProbe("", says(""))
	clash.spec.Name = "echo"
	tests := []struct {
		name string
		deps toolexecutor.Deps
		want string
	}{
		{"a tool without a schema of an object", toolexecutor.Deps{Tools: []tool.Tool{bad}}, `must be "object"`},
		{"two tools of one name", toolexecutor.Deps{Tools: []tool.Tool{clash}}, `two tools are called "echo"`},
		{"an invalid allow entry", toolexecutor.Deps{Config: config.Config{Tools: map[string]config.Tool{
			"http_get": {Allow: []string{"*"}}}}}, "tools.http_get.allow"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := toolexecutor.New(test.deps); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that says %q", err, test.want)
			}
		})
	}
}

func TestManyCallsEachHaveTheirOwnResult(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for range 2 { // two executors on one queue
		start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Slots: 8})
	}
	calls := make([]record.ToolCall, 60)
	for i := range calls {
		calls[i] = newCall(t, "echo", `{"text":"`+strings.Repeat("x", i+1)+`"}`)
		send(t, b, calls[i])
	}
	for i, c := range slices.Backward(calls) {
		if result := await(t, b, c); result.Content != strings.Repeat("x", i+1) {
			t.Errorf("call %d: got %d bytes", i, len(result.Content))
		}
	}
}
