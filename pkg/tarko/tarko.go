// Package tarko has the event types of Tarko's server and of Agent TARS, and the projection of a request's log to them.
// Nothing of this package is stored: the log is native.
//
// There are two vocabularies. The flat one is the event stream of Agent TARS as Tarko's server sends it; the nested one
// is the Agent Protocol that Tarko documents. For events that the Agent Protocol does not define, the nested vocabulary
// uses the types and fields of Agent TARS, so that both are complete.
//
// Read the constants below for the types, flat.go and nested.go for their fields, projector.go for the conversion of a
// log.
package tarko

import "slices"

// Type is the type of an event.
type Type string

// The types of Agent TARS. Both vocabularies use them, unless nested.go defines another one.
const (
	TypeUserMessage                       Type = "user_message"
	TypeAssistantMessage                  Type = "assistant_message"
	TypeAssistantThinkingMessage          Type = "assistant_thinking_message"
	TypeAssistantStreamingMessage         Type = "assistant_streaming_message"
	TypeAssistantStreamingThinkingMessage Type = "assistant_streaming_thinking_message"
	TypeAssistantStreamingToolCall        Type = "assistant_streaming_tool_call"
	TypeToolCall                          Type = "tool_call"
	TypeToolResult                        Type = "tool_result"
	TypeAgentRunStart                     Type = "agent_run_start"
	TypeAgentRunEnd                       Type = "agent_run_end"
	TypePlanStart                         Type = "plan_start"
	TypePlanUpdate                        Type = "plan_update"
	TypePlanFinish                        Type = "plan_finish"
	TypeSystem                            Type = "system"
	TypeFinalAnswer                       Type = "final_answer"
	TypeFinalAnswerStreaming              Type = "final_answer_streaming"
	TypeEnvironmentInput                  Type = "environment_input"
)

// The types that only the Agent Protocol has.
const (
	TypeUserQuery             Type = "user_query" // on input only: the log has a user_message
	TypeAssistantMessageStart Type = "assistant_message_start"
	TypeAssistantMessageDelta Type = "assistant_message_delta"
	TypeToolExecutionStart    Type = "tool_execution_start"
	TypeToolExecutionDelta    Type = "tool_execution_delta"
	TypeSessionStart          Type = "session_start"
	TypeSessionEnd            Type = "session_end"
	TypeError                 Type = "error"
	TypeContextCompressed     Type = "context_compressed"
)

// Custom types, which neither protocol has, for actions of the client.
const (
	TypeActionRequired Type = "action_required"
	TypeActionResult   Type = "action_result"
)

// Vocabulary is a set of event types.
type Vocabulary int

// The vocabularies.
const (
	Flat   Vocabulary = iota // of Agent TARS
	Nested                   // of the Agent Protocol
)

// shared are the types with the same meaning in both vocabularies.
var shared = []Type{
	TypeUserMessage, TypeAssistantMessage, TypeAssistantThinkingMessage, TypeAssistantStreamingThinkingMessage,
	TypeAssistantStreamingToolCall, TypeToolCall, TypeToolResult, TypeAgentRunStart, TypeAgentRunEnd, TypePlanStart,
	TypePlanUpdate, TypePlanFinish, TypeSystem, TypeFinalAnswer, TypeFinalAnswerStreaming, TypeEnvironmentInput,
	TypeContextCompressed, TypeActionRequired, TypeActionResult,
}

// Types returns the types that a client of v may receive, without custom events, sorted.
func (v Vocabulary) Types() []Type {
	own := []Type{TypeAssistantStreamingMessage}
	if v == Nested {
		own = []Type{
			TypeAssistantMessageStart, TypeAssistantMessageDelta, TypeToolExecutionStart, TypeToolExecutionDelta,
			TypeSessionStart, TypeSessionEnd, TypeError,
		}
	}
	all := slices.Concat(shared, own)
	slices.Sort(all)
	return all
}

// reserved reports whether t must not be the type of a custom event.
func reserved(t Type) bool {
	return t != TypeEnvironmentInput &&
		(t == "" || t == TypeUserQuery || slices.Contains(Flat.Types(), t) || slices.Contains(Nested.Types(), t))
}

// IsStreaming reports whether events of the type are increments. Lists of a session's events omit them, because the
// final event repeats their content; Tarko's server does not store them either.
func (t Type) IsStreaming() bool {
	switch t {
	case TypeAssistantStreamingMessage, TypeAssistantStreamingThinkingMessage, TypeAssistantStreamingToolCall,
		TypeFinalAnswerStreaming, TypeAssistantMessageStart, TypeAssistantMessageDelta, TypeToolExecutionDelta:
		return true
	default:
		return false
	}
}
