package toolexecutor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/limit"
)

// verdict is how a call ended.
type verdict struct {
	status  event.ToolStatus
	content string // what the model reads
	summary string // what clients see; "" = the size of content
	media   []event.InputPart
	events  []event.Custom
	ask     *record.ToolAsk // nil = the call has ended
}

const neverRan = "the request was aborted before the call started; it did not run"

func failed(format string, args ...any) verdict {
	return worded(event.ToolFailed, fmt.Sprintf(format, args...))
}

// worded is a verdict whose content is a text for clients too.
func worded(status event.ToolStatus, text string) verdict {
	return verdict{status: status, content: text, summary: text}
}

// interrupted is the end of an unsafe call that an earlier delivery had started and not finished.
func interrupted() verdict {
	return unknown("the call was interrupted after it had started")
}

func unknown(what string) verdict {
	return worded(event.ToolUnknown,
		what+"; it may or may not have taken effect, and was not run again. Find out before you repeat it.")
}

// cutOff is the end of a call that did not come to its own end: a failure, unless it may have taken effect.
func (j job) cutOff(what string) verdict {
	if j.unsafe() {
		return unknown(what)
	}
	return failed("%s", what)
}

// judge turns the result of a tool into a verdict. Events that the tool has emitted count in any case. An error of
// judge means that another executor should run the call.
func (e *Executor) judge(ctx context.Context, j job, result tool.Result, err error) (verdict, error) {
	var v verdict
	if err == nil && result.Ask != nil {
		v = e.asks(j, *result.Ask)
		v.events = e.events(ctx, j, result.Events)
		return v, nil
	}
	if err == nil {
		v = verdict{
			status: event.ToolSuccess, content: result.Content, summary: result.Summary, media: e.media(ctx, j, result.Media),
		}
	} else if v, err = e.verdictOf(ctx, j, err); err != nil {
		return verdict{}, err
	} else if result.Summary != "" {
		v.summary = result.Summary
	}
	v.events = e.events(ctx, j, result.Events)
	return v, nil
}

// verdictOf makes a verdict of a tool's error.
func (e *Executor) verdictOf(ctx context.Context, j job, err error) (verdict, error) {
	if p, ok := errors.AsType[*limit.PanicError](err); ok {
		e.log(ctx, j, "a tool panicked", err, slog.String("stack", string(p.Stack)))
		return j.cutOff("the tool broke down; the operator can see why in the log"), nil
	}
	f, told := errors.AsType[*apierr.Error](err)
	lost, unclear := errors.AsType[*tool.UnknownError](err)
	switch {
	case errors.Is(err, errAborted):
		return j.aborted(err), nil
	case errors.Is(err, limit.ErrBusy) && !errors.Is(err, errDraining):
		return failed("every place for calls was taken for too long; the call did not run. Try again later."), nil
	case errors.Is(err, errDraining) && !j.unsafe():
		return verdict{}, err
	case errors.Is(err, errDraining):
		return unknown("the call was interrupted by the end of the process that ran it"), nil
	case errors.Is(err, limit.ErrTime):
		return j.cutOff(fmt.Sprintf("the call took too long and was stopped; %s has %v for a call", j.spec.Name, j.limit())), nil
	case unclear:
		return j.cutOff(lost.What), nil
	case told:
		return failed("%s", f.Message), nil
	default:
		e.log(ctx, j, "a tool failed", err)
		return j.cutOff("the tool failed; the operator can see why in the log"), nil
	}
}

// media drops parts that are not images or files that may be stored, and parts over the limit.
func (e *Executor) media(ctx context.Context, j job, given []event.InputPart) []event.InputPart {
	var kept []event.InputPart
	room := media.MaxBytes
	for i, part := range given {
		part, err := media.Check(fmt.Sprintf("media[%d]", i), part)
		if err == nil && (len(kept) == tool.MaxMedia || len(part.Data) > room) {
			err = fmt.Errorf("a result has at most %d images and files, of %d bytes together", tool.MaxMedia, media.MaxBytes)
		}
		if err != nil {
			e.log(ctx, j, "an image or file of a tool was dropped", err)
			continue
		}
		room -= len(part.Data)
		kept = append(kept, part)
	}
	return kept
}

// eventFilter admits the events of a call that have room. It is for one goroutine.
type eventFilter struct{ room int }

// admit returns an event in the form in which it is stored, or why it is dropped.
func (f *eventFilter) admit(emitted event.Custom) (event.Custom, error) {
	custom, err := event.NewCustom(emitted.Type, emitted.Data)
	if err != nil {
		return custom, err
	}
	size := len(custom.Type) + len(custom.Data)
	if size > f.room {
		return custom, fmt.Errorf("the events of a call have at most %d bytes", tool.MaxEventBytes)
	}
	f.room -= size
	return custom, nil
}

// events leaves out what cannot be an event, or has no room.
func (e *Executor) events(ctx context.Context, j job, emitted []event.Custom) []event.Custom {
	var events []event.Custom
	filter := eventFilter{tool.MaxEventBytes}
	for _, custom := range emitted {
		custom, err := filter.admit(custom)
		if err != nil {
			e.log(ctx, j, "an event of a tool was dropped", err)
			continue
		}
		events = append(events, custom)
	}
	return events
}

// shower returns a function that sends the events of a call to its runner while the tool runs, with their index in the result.
// Lost events are not an error: the result has them.
func (e *Executor) shower(ctx context.Context, j job) func(event.Custom) {
	var mu sync.Mutex
	filter, index := eventFilter{tool.MaxEventBytes}, 0
	return func(emitted event.Custom) {
		mu.Lock()
		defer mu.Unlock()
		custom, err := filter.admit(emitted)
		if err != nil {
			return
		}
		_ = e.deps.Bus.Progress(ctx, j.log, record.ToolProgress{ToolCallID: j.ToolCallID, Event: &custom, Index: index})
		index++
	}
}

func (j job) aborted(err error) verdict {
	text := "the request was aborted, and the call was stopped"
	switch {
	case errors.Is(err, limit.ErrBusy):
		text = neverRan
	case j.unsafe():
		text += "; it may or may not have taken effect"
	}
	return worded(event.ToolAborted, text)
}

func (e *Executor) log(ctx context.Context, j job, message string, err error, more ...slog.Attr) {
	attributes := append([]slog.Attr{
		slog.String(telemetry.LogTool, j.spec.Name), slog.String(telemetry.LogToolCall, j.ToolCallID), slog.String(telemetry.LogRequest, j.RequestID),
		slog.Any("error", err),
	}, more...)
	e.deps.Log.LogAttrs(ctx, slog.LevelError, message, attributes...)
}
