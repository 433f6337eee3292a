package record

import "github.com/agentbus/agentbus/pkg/id"

// Ids of a child request derive from the call: a process that continues the call after a crash finds the existing
// records, and an action has one id.

// ChildRequest is the request that a call of an agent makes under a request.
func ChildRequest(requestID, toolCallID string) string {
	return id.Derive(id.Request, "agent", requestID, toolCallID)
}

// ChildThread returns the id of a child request's thread. Each call has its own.
func ChildThread(threadID, toolCallID string) string {
	return id.Derive(id.Subthread, "agent", threadID, toolCallID)
}

// ChildAction is the action, on the thread of the agent that calls, which stands for one of the agent that is called.
func ChildAction(toolCallID, actionID string) string {
	return id.Derive(id.Action, "agent", toolCallID, actionID)
}
