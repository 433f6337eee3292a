package loop

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/transcript"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxContentBytes limits how much of the answer a terminal event repeats: it must fit into one message.
const maxContentBytes = 768 << 10

// maxFailureBytes limits how much of an error's message a terminal event repeats.
const maxFailureBytes = 16 << 10

// errPanic is the result of a backend or tool that panicked.
var errPanic = errors.New("it panicked")

// recover turns a panic into an error: the process also runs other requests. It must be deferred.
func (r *run) recover(ctx context.Context, what string) {
	if v := recover(); v != nil {
		r.Logger.ErrorContext(ctx, "a "+what+" panicked", "agent", r.Agent.Name, "panic", v, "stack", string(debug.Stack()))
	}
}

// end writes and stores the terminal event. err is the reason for a missing answer, nil if there is an answer.
func (r *run) end(ctx context.Context, finish event.FinishReason, err error) error {
	err = r.cause(ctx, err)
	if lost := r.events.failed(); lost != nil {
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
	if err := r.events.closeOpen(reason); err != nil {
		return err
	}
	if err := r.events.endTurn(r.failedState, terminal()); err != nil {
		return err
	}
	return r.Log.Flush(context.WithoutCancel(ctx))
}

// cause returns why the request ends without an answer. A complete answer counts, unless an abort was accepted before
// it is written. After ctx is done, its cause replaces other errors.
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
	if err == nil && r.commandsRead {
		return nil
	}
	if abort, _ := r.ReadCommands(ctx); abort != nil {
		return abort
	}
	return err
}

func isAbort(err error) bool {
	_, ok := errors.AsType[*Abort](err)
	return ok
}

// log reports an error whose text clients do not get, or whose cause they do not get, such as the address of a server.
func (r *run) log(ctx context.Context, err error) {
	attributes := []any{"agent", r.Agent.Name, "requestId", r.RequestID, "error", err}
	switch apierr.CodeOf(err) {
	case apierr.Internal:
		r.Logger.ErrorContext(ctx, "a request failed", attributes...)
	case apierr.AgentError:
		if errors.Unwrap(apierr.From(err)) != nil {
			r.Logger.WarnContext(ctx, "the agent failed", attributes...)
		}
	default: // the client gets the whole error
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

// content returns the answer for the terminal event. If it is too long for a message, the newest blocks are kept and
// the event is marked as truncated; the log has all blocks.
func (r *run) content() (content []event.Content, extra event.Members) {
	content = r.State.Content()
	size := 0
	for i, c := range slices.Backward(content) {
		text, err := jsonv2.Marshal(c, jsontext.EscapeForJS(true))
		if err != nil || size+len(text) > maxContentBytes {
			return content[i+1:], event.NewMembers(json.RawMessage(`{"truncated":true}`))
		}
		size += len(text)
	}
	return content, event.Members{}
}

// closeOpen stops the blocks that are open at the end of the request: text keeps its deltas, a call with partial
// arguments is discarded, and the result of a running tool is aborted.
func (j *eventWriter) closeOpen(reason string) error {
	for _, b := range j.state.Open() {
		if err := j.closeBlock(b, reason); err != nil {
			return err
		}
	}
	return nil
}

func (j *eventWriter) closeBlock(b transcript.Block, reason string) error {
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
