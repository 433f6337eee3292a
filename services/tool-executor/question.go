package toolexecutor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/services/tool-executor/internal/metrics"
	"github.com/go-json-experiment/json"
)

// maxAsk bounds a question with its schema and state, in bytes.
const maxAsk = 128 << 10

// asks is the verdict about a call that has not ended but asks the user. A runner of an older version reads it as an unknown
// outcome.
func (e *Executor) asks(j job, ask tool.Ask) verdict {
	if len(ask.Question)+len(ask.Schema)+len(ask.URL)+len(ask.State) > maxAsk {
		return failed("the tool has asked the user a question of more than %d KiB, which cannot be shown", maxAsk>>10)
	}
	v := unknown("the call has asked the user")
	holder := ""
	if ask.Held {
		holder = e.instance
	}
	v.ask = &record.ToolAsk{
		Question: ask.Question, Schema: ask.Schema, URL: ask.URL, State: ask.State, Executor: holder,
		ThreadID: j.ThreadID, Tool: j.Tool, ArgsHash: j.ArgsHash,
	}
	return v
}

// label is the status of a verdict in logs and metrics.
func (v verdict) label() event.ToolStatus {
	if v.ask != nil {
		return metrics.Asked
	}
	return v.status
}

// answerOf returns the user's answer to the question of a call.
func (e *Executor) answerOf(ctx context.Context, j job, c event.Continuation, result event.ActionResult) (proof, error) {
	if why := j.differs(c, event.ContinueInput); why != "" {
		return lacks(why), nil
	}
	stored, err := e.deps.Bus.ToolResult(ctx, bus.LogID{Tenant: j.Tenant, RequestID: c.Payload.AskedIn}, j.ToolCallID)
	if errors.Is(err, bus.ErrNotFound) {
		return lacks(gone), nil
	}
	if err != nil {
		return proof{}, fmt.Errorf("look for the question of call %s: %w", j.ToolCallID, err)
	}
	ask := stored.Ask
	if ask == nil || ask.ThreadID != j.ThreadID || ask.Tool != j.Tool || ask.ArgsHash != j.ArgsHash {
		return lacks("it was for another call"), nil
	}
	return proof{holder: ask.Executor, answer: &tool.Answer{
		Ask:    tool.Ask{Question: ask.Question, Schema: ask.Schema, URL: ask.URL, State: ask.State, Held: ask.Executor != ""},
		Result: result,
	}}, nil
}

// executors is the service whose verbs are the instances: a request to one asks it to continue a call that is open there.
const executors = "executor"

// handOn gives a call to the executor in which it is still open, and reports whether that one has settled it. An executor
// that has ended cannot: the call then continues here as far as its tool allows.
func (e *Executor) handOn(ctx context.Context, j job) (settled bool, err error) {
	if j.proof.holder == "" || j.proof.holder == e.instance {
		return false, nil
	}
	err = e.deps.Bus.Ask(ctx, executors, j.proof.holder, j.ToolCall, &struct{}{})
	if apierr.CodeOf(err) == apierr.Unavailable && ctx.Err() == nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("hand the call on to the executor that holds it: %w", err)
	}
	wait, cancel := context.WithTimeout(ctx, e.time(j)+keptWait)
	defer cancel()
	_, err = e.deps.Bus.AwaitToolResult(wait, j.log, j.ToolCallID, func(record.ToolProgress) {})
	return err == nil, context.Cause(ctx)
}

// serveOthers continues calls that are open here and whose answer another executor has received, until ctx is done.
func (e *Executor) serveOthers(ctx context.Context) error {
	var handling sync.WaitGroup
	defer handling.Wait()
	return e.deps.Bus.Serve(ctx, executors, map[string]bus.Handler{
		e.instance: func(asked context.Context, body []byte) (any, error) {
			var call record.ToolCall
			if err := json.Unmarshal(body, &call); err != nil {
				return nil, fmt.Errorf("decode a call: %w", err)
			}
			handling.Go(func() { // ends with the call, which has a deadline
				asked, cancel := context.WithCancelCause(context.WithoutCancel(asked))
				defer cancel(nil)
				defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
				if err := e.handle(asked, call); err != nil && !errors.Is(err, bus.ErrLeave) {
					e.deps.Log.WarnContext(asked, "a call that another executor has handed on is not settled", telemetry.LogToolCall, call.ToolCallID, "error", err)
				}
			})
			return struct{}{}, nil
		},
	})
}
