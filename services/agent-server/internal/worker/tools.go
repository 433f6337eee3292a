package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/limit"
	"github.com/agentbus/agentbus/pkg/tool/output"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
)

// aliases maps tool names of Claude Code to ours (TARS hub protocol, POST /tasks, allowedTools).
var aliases = map[string]string{
	"Read": "read_file", "Write": "write_file", "Edit": "edit_file", "Glob": "list_files", "Grep": "search_files",
}

// equip gathers the tools of the task, and returns the specs of those that the assignment allows.
func (t *task) equip(specs []tool.Spec) []tool.Spec {
	t.tools = map[string]tool.Tool{}
	for _, subject := range t.worker.deps.Tools {
		t.tools[subject.Spec().Name] = subject
	}
	specs = slices.Clone(specs)
	if more := t.worker.deps.FolderTools; more != nil {
		for _, subject := range more(t.Cwd) {
			if spec := subject.Spec(); t.tools[spec.Name] == nil {
				t.tools[spec.Name], specs = subject, append(specs, spec)
			}
		}
	}
	allowed := t.Assignment.AllowedTools
	if allowed == nil {
		return specs
	}
	return slices.DeleteFunc(specs, func(s tool.Spec) bool {
		return !slices.ContainsFunc(allowed, func(name string) bool { return name == s.Name || aliases[name] == s.Name })
	})
}

// tools runs the calls of a task in this process.
type tools struct{ task *task }

// Call implements loop.Tools. A call of an unsafe tool that had begun when the process died does not run again: its end
// is unknown.
func (t tools) Call(ctx context.Context, call backend.Call, _ string, progress func(loop.Progress)) (loop.Output, error) {
	w := t.task.worker
	subject, ok := t.task.tools[call.Name]
	if !ok {
		return failed("there is no tool %.64q", call.Name), nil
	}
	spec := subject.Spec()
	if spec.Effect == tool.EffectUnsafe {
		first, err := w.deps.Store.StartCall(ctx, t.task.TaskID, call.ID)
		if err != nil {
			return loop.Output{}, apierr.Wrap(err, apierr.Unavailable, "tool %s could not be called; try again", call.Name)
		}
		if !first {
			return end(event.ToolUnknown, "the call was interrupted after it had started; it may or may not have taken effect, "+
				"and was not run again. Find out before you repeat it."), nil
		}
	}
	printed := output.NewStream(func(delta string) { progress(loop.Progress{Delta: delta}) })
	started := time.Now()
	result, err := t.run(ctx, subject, tool.Call{
		ID: call.ID, Args: call.Args, Progress: printed.Write, For: tool.Caller{
			ThreadID: t.task.SessionID, RequestID: t.task.recorder.requestID, AgentID: t.task.agent.Name,
		},
	})
	printed.Close()
	if err != nil && ctx.Err() != nil {
		return loop.Output{}, context.Cause(ctx)
	}
	o := w.judge(ctx, spec, result, err)
	o.Elapsed = time.Since(started)
	return o, nil
}

// maxAsks is how many questions of one call are declined.
const maxAsks = 10

// run runs a call. There is no user, so each question of the tool is declined.
func (t tools) run(ctx context.Context, subject tool.Tool, call tool.Call) (result tool.Result, err error) {
	timeout := cmp.Or(subject.Spec().Timeout, defaultTimeout)
	for range maxAsks {
		result, err = t.task.worker.limiter.Call(ctx, subject, call, timeout)
		if err != nil || result.Ask == nil {
			return result, err
		}
		call.Answer = &tool.Answer{Ask: *result.Ask, Result: event.ActionResult{Status: event.ActionDenied, Error: noUser}}
	}
	return tool.Result{}, apierr.New(apierr.ToolError, "the tool asks the user again and again; %s", noUser)
}

// judge is how a call ended, for the model and for clients.
func (w *Worker) judge(ctx context.Context, spec tool.Spec, result tool.Result, err error) loop.Output {
	told, isFault := errors.AsType[*apierr.Error](err)
	lost, unclear := errors.AsType[*tool.UnknownError](err)
	switch {
	case unclear:
		return cutOff(spec, lost.What)
	case err == nil:
		content := output.Cut(result.Content, cmp.Or(spec.MaxOutput, defaultMaxOutput))
		return loop.Output{
			Status: event.ToolSuccess, Content: content, Media: result.Media, Events: result.Events,
			Summary: output.Summary(cmp.Or(result.Summary, tool.Size(content))),
		}
	case isFault:
		o := failed("%s", told.Message)
		o.Summary = output.Summary(cmp.Or(result.Summary, told.Message))
		return o
	case errors.Is(err, limit.ErrTime):
		return cutOff(spec, fmt.Sprintf("the call took too long and was stopped; %s has %v for a call",
			spec.Name, cmp.Or(spec.Timeout, defaultTimeout)))
	default:
		w.deps.Log.ErrorContext(ctx, "a tool failed", telemetry.LogTool, spec.Name, "error", err)
		return cutOff(spec, "the tool failed; the operator can see why in the log")
	}
}

// cutOff is the end of a call that may have taken effect, if its tool has one.
func cutOff(spec tool.Spec, what string) loop.Output {
	if spec.Effect == tool.EffectUnsafe {
		return end(event.ToolUnknown, what+"; it may or may not have taken effect. Find out before you repeat it.")
	}
	return failed("%s", what)
}

func failed(format string, args ...any) loop.Output {
	return end(event.ToolFailed, fmt.Sprintf(format, args...))
}

func end(status event.ToolStatus, text string) loop.Output {
	return loop.Output{Status: status, Content: text, Summary: output.Summary(text)}
}

// objects are the large payloads of a session.
type objects struct {
	store     Store
	sessionID string
}

// PutObject implements loop.Objects.
func (o objects) PutObject(ctx context.Context, data []byte) (event.ObjectRef, error) {
	name := id.Derive("obj", string(data))
	if err := o.store.PutObject(ctx, o.sessionID, name, data); err != nil {
		return event.ObjectRef{}, apierr.Wrap(err, apierr.Unavailable, "the result of a tool could not be stored; try again")
	}
	return event.ObjectRef{Object: name, Size: int64(len(data))}, nil
}

// Object implements transcript.Objects.
func (o objects) Object(ctx context.Context, ref event.ObjectRef) ([]byte, error) {
	data, err := o.store.Object(ctx, o.sessionID, ref.Object)
	if errors.Is(err, store.ErrNotFound) {
		return []byte("this output is no longer stored"), nil
	}
	return data, err
}
