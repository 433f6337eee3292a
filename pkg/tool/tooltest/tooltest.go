// Package tooltest is what every tool must do: the conformance suite of the door pkg/tool.
package tooltest

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/tool"
)

// Cases are arguments from the tool's author. Bad ones must be rejected, or fail, with apierr.ToolError; the suite adds
// some that no tool accepts.
type Cases struct {
	Good []string // at least one
	Bad  []string
	Slow string // takes longer than a few seconds unless it is cancelled; "" = the tool has no such call
}

// Run checks subject as sub-tests of t.
func Run(t *testing.T, subject tool.Tool, cases Cases) {
	t.Helper()
	if len(cases.Good) == 0 {
		t.Fatal("tooltest: no good arguments were given")
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, tool.Tool, Cases)
	}{
		{"describes itself", describesItself},
		{"accepts good arguments", acceptsGood},
		{"refuses bad arguments with tool_error", refusesBad},
		{"does not start when its context is done", refusesToStartLate},
		{"keeps its deadline", keepsDeadline},
		{"serves many callers at once", servesMany},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, subject, cases)
		})
	}
}

func describesItself(t *testing.T, subject tool.Tool, cases Cases) {
	spec := subject.Spec()
	if !id.Valid(spec.Name) {
		t.Errorf("name %q: want ^[A-Za-z0-9_-]{1,64}$", spec.Name)
	}
	if spec.Description == "" {
		t.Error("the description is empty: a model cannot decide when to call the tool")
	}
	switch spec.Effect {
	case tool.EffectNone, tool.EffectIdempotent, tool.EffectUnsafe:
	default:
		t.Errorf("effect %q: want none, idempotent or unsafe", spec.Effect)
	}
	switch spec.Approval {
	case tool.ApprovalAlways, tool.ApprovalNever:
	default:
		t.Errorf("approval %q: want always or never", spec.Approval)
	}
	schema, err := tool.CompileSchema(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range cases.Good {
		if err := schema.Check(json.RawMessage(args)); err != nil {
			t.Errorf("good arguments %s do not fit the schema: %v", args, err)
		}
	}
}

func acceptsGood(t *testing.T, subject tool.Tool, cases Cases) {
	for _, args := range cases.Good {
		if _, err := call(t.Context(), subject, args); err != nil {
			t.Errorf("Call(%s): %v", args, err)
		}
	}
}

func refusesBad(t *testing.T, subject tool.Tool, cases Cases) {
	foreign := []string{`null`, `[]`, `"text"`, `7`, `{`, `{"a":1,"a":2}`, `{"no-such-argument":true}`, "{\"a\":\"\xff\"}"}
	for _, args := range append(foreign, cases.Bad...) {
		_, err := call(t.Context(), subject, args)
		if code := apierr.CodeOf(err); code != apierr.ToolError {
			t.Errorf("Call(%s): got code %q (%v), want %q", args, code, err, apierr.ToolError)
			continue
		}
		if apierr.From(err).Message == "" {
			t.Errorf("Call(%s): the message is empty: a model could not correct itself", args)
		}
	}
}

func refusesToStartLate(t *testing.T, subject tool.Tool, cases Cases) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := call(ctx, subject, cases.Good[0]); err == nil {
		t.Error("got nil, want an error")
	}
}

func keepsDeadline(t *testing.T, subject tool.Tool, cases Cases) {
	if cases.Slow == "" {
		return // all its calls are short, and the case above has shown that it looks at its context
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	returned := make(chan error, 1)
	go func() { // ends with the call
		_, err := call(ctx, subject, cases.Slow)
		returned <- err
	}()
	<-ctx.Done()
	select {
	case err := <-returned:
		if err == nil {
			t.Error("got nil from a call that was cut off, want an error")
		}
	case <-time.After(time.Second):
		t.Error("Call has not returned a second after its context was done")
	}
}

func servesMany(t *testing.T, subject tool.Tool, cases Cases) {
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for _, args := range cases.Good {
				if _, err := call(t.Context(), subject, args); err != nil {
					t.Errorf("Call(%s): %v", args, err)
				}
			}
		})
	}
	callers.Wait()
}

func call(ctx context.Context, subject tool.Tool, args string) (tool.Result, error) {
	return subject.Call(ctx, tool.Call{ID: id.New(id.Call), Args: json.RawMessage(args), Progress: func(string) {}})
}
