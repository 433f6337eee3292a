package agentrunner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
)

const (
	// defaultTimeout is the timeout of a tool without one.
	defaultTimeout = time.Minute
	// queueTime is the time for a call to reach an executor, and for the result to come back.
	queueTime = 30 * time.Second
	// sendTimeout limits one attempt to send a call. It is less than queueTime, because each attempt sets the deadline again.
	sendTimeout = 5 * time.Second
)

var errNoAnswer = errors.New("the tool did not answer")

// dispatcher runs tool calls on the executors.
type dispatcher struct {
	claim    *claim
	timeouts map[string]time.Duration
	ttl      time.Duration // of questions
}

func (c *claim) dispatcher(agent loop.Agent) dispatcher {
	d := dispatcher{claim: c, timeouts: make(map[string]time.Duration, len(agent.Tools)), ttl: agent.ActionTTL}
	for _, spec := range agent.Tools {
		d.timeouts[spec.Name] = spec.Timeout
	}
	return d
}

// Call implements loop.Tools. An executor that never answers gives the status "unknown".
func (d dispatcher) Call(ctx context.Context, call backend.Call, approval string, progress func(loop.Progress)) (loop.Output, error) {
	hash, err := record.HashArgs(call.Args)
	if err != nil {
		return loop.Output{}, err
	}
	timeout := d.timeouts[call.Name]
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	c := d.claim
	err = d.send(ctx, timeout, record.ToolCall{
		Tenant: c.log.Tenant, RequestID: c.log.RequestID, ThreadID: c.accepted.ThreadID, AgentID: c.accepted.AgentID,
		ToolCallID: call.ID, Tool: call.Name, Args: call.Args, ArgsHash: hash, Approved: approval,
		Context: c.context,
	})
	if err != nil {
		return loop.Output{}, d.failed(ctx, apierr.Wrap(err, apierr.Unavailable, "tool %s could not be called; try again", call.Name))
	}
	started := time.Now()
	wait, cancel := context.WithTimeoutCause(ctx, timeout+queueTime, errNoAnswer)
	defer cancel()
	result, err := c.runner.deps.Bus.AwaitToolResult(wait, c.log, call.ID, func(p record.ToolProgress) {
		progress(loop.Progress{Delta: p.Delta, Event: p.Event, Index: p.Index})
	})
	if err != nil && errors.Is(context.Cause(wait), errNoAnswer) {
		return loop.Output{
			Status:  event.ToolUnknown,
			Content: fmt.Sprintf("the tool did not answer within %s; it may or may not have run", timeout+queueTime),
			Summary: "no answer: it may or may not have run",
			Elapsed: time.Since(started),
		}, nil
	}
	if err != nil {
		return loop.Output{}, d.failed(wait,
			apierr.Wrap(err, apierr.Unavailable, "the result of tool %s could not be read; try again", call.Name))
	}
	if result.Ask != nil {
		return loop.Output{Asks: d.question(call, hash, *result.Ask), Events: result.Events}, nil
	}
	return d.output(ctx, result)
}

// question returns the action by which the user answers the question of a call. Its id is the same for every runner.
func (d dispatcher) question(call backend.Call, hash string, ask record.ToolAsk) *event.Continuation {
	requestID := d.claim.log.RequestID
	return &event.Continuation{
		ActionID: id.Derive(id.Action, "ask", requestID, call.ID), Kind: event.ContinueInput,
		Payload: event.ContinuationAction{
			ToolCallID: call.ID, Tool: call.Name, Args: call.Args, ArgsHash: hash,
			Question: ask.Question, Schema: ask.Schema, URL: ask.URL, AskedIn: requestID,
		},
		ExpiresAt: d.claim.runner.deps.Bus.Now().Add(d.ttl).UTC().Truncate(time.Millisecond),
	}
}

// send puts a call into the queue. It retries while the broker is unavailable; the timeout of the call starts when it is
// stored.
func (d dispatcher) send(ctx context.Context, timeout time.Duration, call record.ToolCall) error {
	return d.claim.retry(ctx, "its tool call to be sent", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, sendTimeout)
		defer cancel()
		b := d.claim.runner.deps.Bus
		call.Deadline = b.Now().Add(timeout + queueTime/2)
		return b.CallTool(ctx, builtin.Toolset, call)
	})
}

// failed returns err, or the cause of ctx if the call was cancelled.
func (d dispatcher) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errNoAnswer) {
		return context.Cause(ctx)
	}
	return err
}

func (d dispatcher) output(ctx context.Context, r record.ToolResult) (loop.Output, error) {
	output := loop.Output{
		Status: r.Status, Content: r.Content, Ref: r.Ref, Media: r.Media, Summary: r.Summary,
		Elapsed: time.Duration(r.ElapsedMS) * time.Millisecond, Events: r.Events,
	}
	if r.Ref == nil {
		return output, nil
	}
	data, err := d.claim.objects().Object(ctx, *r.Ref)
	if err != nil {
		return loop.Output{}, apierr.Wrap(err, apierr.Unavailable, "the result of a tool could not be read; try again")
	}
	output.Content = string(data)
	return output, nil
}
