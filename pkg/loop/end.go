package loop

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/transcript"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxContentBytes is the most that a terminal event repeats of the answer: it must fit into one message.
const maxContentBytes = 768 << 10

// maxFailureBytes is the most that a terminal event repeats of an error's message.
const maxFailureBytes = 16 << 10

// errPanic is what a backend or tool that panicked returned.
var errPanic = errors.New("it panicked")

// recover keeps a panic from ending the process: other requests run in it. It must be deferred.
func (r *run) recover(ctx context.Context, what string) {
	if v := recover(); v != nil {
		r.Logger.ErrorContext(ctx, "a "+what+" panicked", "agent", r.Agent.Name, "panic", v, "stack", string(debug.Stack()))
	}
}

// end writes the terminal event and stores it. err is why there is no answer; nil = there is one.
func (r *run) end(ctx context.Context, finish event.FinishReason, err error) error {
	err = r.cause(ctx, err)
	if lost := r.journal.failed(); lost != nil {
		return lost
	}
	abort, aborted := errors.AsType[*Abort](err)
	var terminal func() event.Body
	reason := reasonError
	switch {
	case err == nil:
		terminal = func() event.Body { return r.done(finish) }
	case aborted:
		reason = reasonAborted
		terminal = func() event.Body { return r.aborted(abort) }
	case errors.Is(err, errTime):
		e := apierr.New(apierr.StreamTimeout, "the agent did not finish within %s; try again", r.Agent.Time)
		terminal = func() event.Body { return r.failed(e) }
	case ctx.Err() != nil, errors.Is(err, ErrHandOver):
		return err
	default:
		r.log(ctx, err)
		terminal = func() event.Body { return r.failed(apierr.From(err)) }
	}
	if err := r.journal.closeOpen(reason); err != nil {
		return err
	}
	if err := r.journal.endTurn(r.kept, terminal()); err != nil {
		return err
	}
	return r.Log.Flush(context.WithoutCancel(ctx))
}

// cause says why the request ends without an answer. A complete answer stands, except that an abort which was taken
// before it is written counts; and what fails after ctx is done fails because of that.
func (r *run) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil && (err != nil || isAbort(context.Cause(ctx))) {
		err = context.Cause(ctx)
	}
	if isAbort(err) {
		return err
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err == nil && r.looked {
		return nil
	}
	if abort, _ := r.Asked(ctx); abort != nil {
		return abort
	}
	return err
}

func isAbort(err error) bool {
	_, ok := errors.AsType[*Abort](err)
	return ok
}

// log tells operators about an error whose text clients do not get.
func (r *run) log(ctx context.Context, err error) {
	if apierr.CodeOf(err) == apierr.Internal {
		r.Logger.ErrorContext(ctx, "a request failed", "agent", r.Agent.Name, "request", r.RequestID, "error", err)
	}
}

func (r *run) done(finish event.FinishReason) event.Body {
	content, extra := r.content()
	return event.Done{
		MessageID: r.messageID, ThreadID: r.ThreadID, Content: content, Usage: r.State.Usage(), FinishReason: finish, Extra: extra,
	}
}

func (r *run) aborted(abort *Abort) event.Body {
	usage := r.State.Usage().Add(r.unfinished)
	content, extra := r.content()
	return event.Aborted{
		MessageID: r.messageID, ThreadID: r.ThreadID, Reason: abort.Reason, Content: content, Usage: &usage, Extra: extra,
	}
}

func (r *run) failed(e *apierr.Error) event.Body {
	usage := r.State.Usage().Add(r.unfinished)
	message := head(clean(e.Message), maxFailureBytes)
	return event.Error{ThreadID: r.ThreadID, Code: e.Code, Message: message, Retryable: e.Retryable, Usage: &usage}
}

// content is the answer for the terminal event. Of one that is too long for a message the newest blocks stay, and the
// event says that it is truncated; all blocks stand in the log.
func (r *run) content() (content []event.Content, extra jsontext.Value) {
	content = r.State.Content()
	size := 0
	for i, c := range slices.Backward(content) {
		text, err := json.Marshal(c, jsontext.EscapeForJS(true))
		if err != nil || size+len(text) > maxContentBytes {
			return content[i+1:], jsontext.Value(`{"truncated":true}`)
		}
		size += len(text)
	}
	return content, nil
}

// closeOpen stops the blocks that the end of the request finds open: prose keeps what it has, a call does not count for
// its arguments are not whole, and a tool that still runs is given up.
func (j *journal) closeOpen(reason string) error {
	for _, b := range j.state.Open() {
		if err := j.closeBlock(b, reason); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) closeBlock(b transcript.Block, reason string) error {
	stop := j.stop(b.ID)
	stop.Reason = reason
	switch b.Kind {
	case event.NameThinking:
		return j.emit(event.Thinking{Block: stop, Thinking: b.Text})
	case event.NameToolCall:
		return j.discard(b, reason)
	case event.NameToolResult:
		text := "the request ended before the tool did"
		output := event.ToolOutput{ToolCallID: b.CallID, Status: event.ToolAborted, Content: text}
		if err := j.emit(output); err != nil {
			return err
		}
		return j.emit(event.ToolResult{
			Block: stop, ToolCallID: b.CallID, Tool: b.Tool, Status: event.ToolAborted, Summary: text,
		})
	case event.NameFinalAnswer:
		return j.emit(event.FinalAnswer{Block: stop, Content: b.Text, Title: b.Title, Format: b.Format, Kind: b.Report})
	default:
		return j.emit(event.Text{Block: stop, Text: b.Text})
	}
}
