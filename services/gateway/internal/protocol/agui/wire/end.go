package wire

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// end projects a terminal event of an agent.
func (r *run) end(a *agent, body event.Body) {
	r.close(a)
	if a != r.top {
		r.endSubagent(a, body)
		return
	}
	last := Event{Type: RunFinished, ThreadID: cmp.Or(r.threadID, unknownThread), RunID: r.name()}
	switch b := body.(type) {
	case event.Done:
		last.Outcome, last.Usage = r.outcome(), r.usage(&b.Usage)
		last.Metadata = Metadata{"finishReason": string(b.FinishReason)}
		if b.Usage.CostUSD > 0 {
			last.Metadata["costUsd"] = b.Usage.CostUSD
		}
	case event.Aborted:
		last.Outcome, last.Usage = &Outcome{Type: outcomeCancelled}, r.usage(b.Usage)
		if b.Reason != "" {
			last.Metadata = Metadata{"reason": b.Reason}
		}
	case event.Error:
		last = Event{
			Type: RunError, Message: cmp.Or(b.Message, string(b.Code)), Code: string(b.Code), Usage: r.usage(b.Usage),
			Metadata: Metadata{"retryable": b.Retryable},
		}
	}
	r.emit(a, last)
}

// endSubagent ends an agent that was called. Its actions are those of the run, whose end has them.
func (r *run) endSubagent(a *agent, body event.Body) {
	last := Event{Type: SubagentFinished, SubagentRunID: a.runID, Outcome: &Outcome{Type: outcomeSuccess}}
	switch b := body.(type) {
	case event.Done:
		if b.FinishReason == event.FinishActionRequired {
			last.Outcome.Type = outcomeSuspended
		}
	case event.Error:
		last = Event{Type: SubagentError, SubagentRunID: a.runID, Message: cmp.Or(b.Message, string(b.Code)), Code: string(b.Code)}
	case event.Aborted:
		last = Event{Type: SubagentError, SubagentRunID: a.runID, Message: cmp.Or(b.Reason, "aborted"), Code: "aborted"}
	}
	r.emit(a, last)
	a.parent.drop(a)
}

// outcome is an interrupt if the user must act, and a success otherwise, with the calls that the client must run.
func (r *run) outcome() *Outcome {
	o := &Outcome{Type: outcomeSuccess}
	for _, c := range r.waiting {
		if c.Kind == event.ContinueTool && c.Payload.Agent == nil {
			o.PendingToolCallIDs = append(o.PendingToolCallIDs, c.Payload.ToolCallID)
			continue
		}
		o.Interrupts = append(o.Interrupts, interrupt(c))
	}
	if len(o.Interrupts) > 0 {
		o.Type, o.PendingToolCallIDs = outcomeInterrupt, nil
	}
	return o
}

// The reasons of interrupts.
const (
	reasonApproval = "tool_approval"
	reasonInput    = "input_required"
	reasonTool     = "tool_result_required" // of an agent that was called
)

// The answers to interrupts, as JSON Schema.
const (
	approvalSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"}},"required":["approved"]}`
	inputSchema    = `{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}`
)

// interrupt returns the interrupt of an action. Its id contains the kind of the action, which decides how its answer is read.
func interrupt(c event.Continuation) Interrupt {
	i := Interrupt{
		ID: string(c.Kind) + ":" + c.ActionID, Reason: reasonTool, Message: c.Payload.Question, ToolCallID: c.Payload.ToolCallID,
		Metadata: Metadata{"kind": string(c.Kind)},
	}
	switch c.Kind {
	case event.ContinueApproval:
		i.Reason, i.ResponseSchema = reasonApproval, json.RawMessage(approvalSchema)
		i.Message = cmp.Or(i.Message, "Allow "+c.Payload.Tool+"?")
	case event.ContinueInput:
		i.Reason, i.ResponseSchema = reasonInput, json.RawMessage(inputSchema)
		if c.Payload.Schema != nil {
			i.ResponseSchema = c.Payload.Schema
		}
	case event.ContinueTool:
	}
	if !c.ExpiresAt.IsZero() {
		i.ExpiresAt = c.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	if c.Payload.Tool != "" {
		i.Metadata["toolName"] = c.Payload.Tool
	}
	if len(c.Payload.Args) > 0 {
		i.Metadata["args"] = c.Payload.Args
	}
	if c.Payload.URL != "" {
		i.Metadata["url"] = c.Payload.URL
	}
	if c.Payload.Again {
		i.Metadata["again"] = true
	}
	if c.Payload.Agent != nil {
		i.Metadata["agentId"] = c.Payload.Agent.AgentID
	}
	return i
}

// usage is the usage of the run's model; nil = unknown.
func (r *run) usage(u *event.Usage) []TokenUsage {
	if u == nil {
		return nil
	}
	return []TokenUsage{{
		Provider: r.provider, Model: r.model, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		TotalTokens: u.InputTokens + u.OutputTokens, ReasoningTokens: u.ReasoningTokens, CachedInputTokens: u.CachedInputTokens,
	}}
}
