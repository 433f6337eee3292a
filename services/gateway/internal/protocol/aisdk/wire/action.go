package wire

import (
	"cmp"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// action projects what the client must do. What an agent that was called asks is a part of its own, whose id is that of the
// action: the call that it is for is in another log. It is in a step of its own, because a client waits until all calls of the
// last step are answered, and the call of the agent has no result yet.
func (m *message) action(b event.Continuation) {
	callID := b.Payload.ToolCallID
	if b.Payload.Agent != nil || callID == "" {
		callID = b.ActionID
		m.step.over = m.step.over || !m.step.agents
		m.beginStep()
		m.step.agents = true
	}
	c, known := m.calls[callID]
	if !known {
		c = m.introduce("", callID, b.Payload.Tool, b.Payload.Args)
	}
	switch {
	case b.Kind == event.ContinueApproval:
		c.approvalID = b.ActionID
		m.keep("", Chunk{
			Type: ToolApprovalRequest, ApprovalID: b.ActionID, ToolCallID: callID, Reason: b.Payload.Question, ApprovalDescriptor: descriptor(b),
		})
	case m.isLast(m.requestID):
		m.step.client = true
		m.keep("", c.available(callID, b.Payload.Tool, b.Payload.Args, false))
	}
}

// descriptor describes an approval.
func descriptor(b event.Continuation) *Approval {
	a := Approval{Again: b.Payload.Again, ArgsHash: b.Payload.ArgsHash}
	if !b.ExpiresAt.IsZero() {
		a.ExpiresAt = b.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	if b.Payload.Agent != nil {
		a.AgentID = b.Payload.Agent.AgentID
	}
	if a == (Approval{}) {
		return nil
	}
	return &a
}

// answer shows the decision about a call of the message, and ends the part that an agent's action is: the result of its call
// is in another log.
func (m *message) answer(a event.ActionResult) {
	approved := a.Status == event.ActionSuccess
	for callID, c := range m.calls {
		if c.approvalID == a.ActionID {
			m.emit(Chunk{Type: ToolApprovalResponse, ApprovalID: a.ActionID, Approved: &approved, Reason: a.Error})
			if callID != a.ActionID {
				return
			}
		}
	}
	c, own := m.calls[a.ActionID]
	switch {
	case !own || c.answered:
	case approved && len(a.Result) > 0:
		m.emit(Chunk{Type: ToolOutputAvailable, ToolCallID: a.ActionID, Output: a.Result})
	case approved:
		m.emit(Chunk{Type: ToolOutputAvailable, ToolCallID: a.ActionID, Output: encode(result{Status: string(a.Status), Summary: "approved"})})
	case c.approvalID != "":
		m.emit(Chunk{Type: ToolOutputDenied, ToolCallID: a.ActionID})
	default:
		m.emit(Chunk{Type: ToolOutputError, ToolCallID: a.ActionID, ErrorText: cmp.Or(a.Error, string(a.Status))})
	}
}
