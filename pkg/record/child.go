package record

import "github.com/agentbus/agentbus/pkg/id"

// What an agent makes when it calls another has ids that derive from the call: whoever goes on with the call after a crash
// finds what is there, and the same action never has two ids.

// ChildRequest is the request that a call of an agent makes under a request.
func ChildRequest(requestID, toolCallID string) string {
	return id.Derive(id.Request, "agent", requestID, toolCallID)
}

// ChildThread is the thread of the agent that is called: each call has one of its own.
func ChildThread(threadID, toolCallID string) string {
	return id.Derive(id.Below, "agent", threadID, toolCallID)
}

// ChildAction is the action, on the thread of the agent that calls, which stands for one of the agent that is called.
func ChildAction(toolCallID, actionID string) string {
	return id.Derive(id.Action, "agent", toolCallID, actionID)
}
