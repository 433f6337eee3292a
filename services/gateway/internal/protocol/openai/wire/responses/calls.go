package responses

import (
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire"
)

// call projects a call of a tool. One that waits for an approval or an answer is shown when the agent waits for it; a runner of an
// earlier version writes the gate with the stop alone.
func (r *run) call(b event.ToolCall) {
	e := r.find(b.ToolCallID)
	if e != nil && e.void {
		e = r.repeat(e, b)
	}
	if e == nil {
		e = r.startCall(b)
	}
	if e == nil {
		return
	}
	switch b.Stage {
	case event.StageDelta:
		r.delta(e, b.Delta)
	case event.StageStop:
		r.stopCall(e, b)
	case event.StageStart:
	}
}

// repeat returns the item of a call that was discarded, if the call is made again: the end of its arguments has all of them. nil =
// the call now needs another item.
func (r *run) repeat(e *entity, b event.ToolCall) *entity {
	if b.Gate == "" && e.item.Type == typeMCPCall || b.Gate == event.ContinueTool && e.item.Type == typeFunctionCall {
		e.void, e.item.Name = false, b.Tool
		return e
	}
	r.discard(e)
	return nil
}

// startCall starts the item of a call; nil if it has none.
func (r *run) startCall(b event.ToolCall) *entity {
	switch {
	case b.Stage == event.StageDelta, b.Discarded, b.Gate == event.ContinueApproval, b.Gate == event.ContinueInput:
		return nil
	case b.Gate == event.ContinueTool:
		r.hidden[b.ToolCallID] = true
		callID := wire.CallID{Kind: b.Gate, ActionID: id.Derive(id.Action, b.ToolCallID), ThreadID: r.threadID}
		return r.start(&entity{key: b.ToolCallID, item: functionCall(r.nextID("fc"), callID.String(), b.Tool)})
	default:
		return r.start(&entity{key: b.ToolCallID, item: r.serverCall(b.Tool)})
	}
}

func (r *run) serverCall(name string) Item {
	return Item{
		ID: r.nextID("mcp"), Type: typeMCPCall, Status: statusInProgress, ServerLabel: ServerLabel, Name: name, Arguments: new(string),
	}
}

// stopCall ends the arguments of a call. A call of an own tool of the agent ends with its result.
func (r *run) stopCall(e *entity, b event.ToolCall) {
	function := e.item.Type == typeFunctionCall
	switch {
	case b.Discarded:
		e.void, e.text = true, nil
		return
	case function != (b.Gate == event.ContinueTool), b.Gate == event.ContinueApproval, b.Gate == event.ContinueInput:
		r.hidden[b.ToolCallID] = function // a call whose arguments are not valid: the client does not run it
		r.discard(e)
		return
	}
	if len(e.text) == 0 {
		r.delta(e, argumentsText(b.Args))
	}
	if function {
		r.close(e, statusCompleted)
		return
	}
	r.finishArguments(e)
}

// result projects the result of a call of an own tool of the agent. Results that the client has given are input.
func (r *run) result(b event.ToolResult) {
	if r.hidden[b.ToolCallID] || b.Discarded || b.Stage == event.StageDelta {
		return
	}
	e := r.find(b.ToolCallID)
	if e == nil {
		e = r.resume(b)
	}
	if e == nil || b.Stage != event.StageStop {
		return
	}
	if b.Status == event.ToolSuccess {
		e.item.Output = &b.Summary
		r.close(e, statusCompleted)
		return
	}
	text := b.Summary
	if text == "" {
		text = string(b.Status)
	}
	e.item.Error = &callError{Type: "mcp_tool_execution_error", Content: []Part{{Type: "text", Text: &text}}}
	r.close(e, statusFailed)
}

// resume starts the item of a call that an earlier response has made: one that was approved, or that continues without the
// client. The earlier response has its arguments. It returns nil for a call that does not run: the client has given the result,
// or the call was denied.
func (r *run) resume(b event.ToolResult) *entity {
	actionID := id.Derive(id.Action, b.ToolCallID)
	approved := false
	for _, a := range r.answers {
		if a.ActionID != actionID {
			continue
		}
		if approved = a.Status == event.ActionSuccess && len(a.Result) == 0; !approved {
			return nil
		}
	}
	if !approved && (b.Stage != event.StageStop || b.Status == event.ToolDenied) {
		return nil
	}
	item := r.serverCall(b.Tool)
	if approved {
		item.RequestID = wire.CallID{Kind: event.ContinueApproval, ActionID: actionID, ThreadID: r.threadID}.String()
	}
	e := r.start(&entity{key: b.ToolCallID, item: item})
	r.delta(e, "{}")
	r.finishArguments(e)
	return e
}
