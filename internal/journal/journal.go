// Package journal has tools that write each of their executions into a file, which shows how often a call ran. The fault
// harness (cmd/chaos) uses them; only services that are built with the tag chaos have them (see pkg/app).
package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/weaken"
	jsonv2 "github.com/go-json-experiment/json"
)

// The names of the tools, one of each effect and one that asks for approval.
const (
	None       = "journal_none"
	Idempotent = "journal_idempotent"
	Unsafe     = "journal_unsafe"
	Approved   = "journal_approved" // unsafe as well
)

// Line is what an execution notes, as a line of JSON.
type Line struct {
	At    time.Time       `json:"at"`
	Tool  string          `json:"tool"`
	Call  string          `json:"call"` // its id
	Args  json.RawMessage `json:"args"`
	Ended bool            `json:"ended,omitzero"` // this line is the end of the execution, another one was its start
}

const maxDelay = 10 * time.Second

const schema = `{
	"type": "object",
	"properties": {
		"mark": {"type": "string", "description": "Any text, which identifies the execution."},
		"delay": {"type": "string", "description": "How long to take, such as 200ms; at most 10s."}
	},
	"additionalProperties": false
}`

type args struct {
	Mark  string `json:"mark,omitzero"`
	Delay string `json:"delay,omitzero"`
}

// file is where executions are noted. It is safe for concurrent use, also by several processes.
type file struct {
	path string
	mu   sync.Mutex
}

// Tools returns the tools, sorted by name. They append to the file at path; "" notes nothing.
func Tools(path string) []tool.Tool {
	f := &file{path: path}
	return []tool.Tool{
		f.tool(Approved, tool.EffectUnsafe, tool.ApprovalAlways),
		f.tool(Idempotent, tool.EffectIdempotent, tool.ApprovalNever),
		f.tool(None, tool.EffectNone, tool.ApprovalNever),
		f.tool(Unsafe, tool.EffectUnsafe, tool.ApprovalNever),
	}
}

func (f *file) tool(name string, effect tool.Effect, approval tool.Approval) tool.Tool {
	spec := tool.Spec{
		Name: name, Description: "Notes that it was called. For tests.", Schema: json.RawMessage(schema),
		Effect: effect, Approval: approval, Timeout: 20 * time.Second,
	}
	return tool.Func(spec, func(ctx context.Context, in args, call tool.Call) (tool.Result, error) {
		return f.run(ctx, name, in, call)
	})
}

// run notes its start before it does anything else: an execution that is cut off counts.
func (f *file) run(ctx context.Context, name string, in args, call tool.Call) (tool.Result, error) {
	delay := time.Duration(0)
	if in.Delay != "" {
		var err error
		if delay, err = time.ParseDuration(in.Delay); err != nil || delay < 0 || delay > maxDelay {
			return tool.Result{}, apierr.New(apierr.ToolError, "\"delay\" is %.20q; expected a duration such as 200ms, at most 10s", in.Delay)
		}
	}
	line := Line{At: weaken.MachineTime(), Tool: name, Call: call.ID, Args: call.Args}
	if err := f.append(line); err != nil {
		return tool.Result{}, err
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return tool.Result{}, ctx.Err()
	case <-timer.C:
	}
	line.At, line.Ended = weaken.MachineTime(), true
	return tool.Result{Content: "noted " + in.Mark}, f.append(line)
}

// append writes a line with one call, so that lines of several processes do not mix.
func (f *file) append(line Line) error {
	if f.path == "" {
		return nil
	}
	text, err := jsonv2.Marshal(line)
	if err != nil {
		return fmt.Errorf("note an execution: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("note an execution: %w", err)
	}
	defer func() { _ = out.Close() }() // what was written was written
	if _, err := out.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("note an execution: %w", err)
	}
	return nil
}
