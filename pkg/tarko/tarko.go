// Package tarko is the vocabulary of Tarko's server and of Agent TARS, and the projection of a request's log into it.
// The log stays what it is: nothing of this package is ever stored.
//
// There are two vocabularies of the same facts. The flat one is the event stream of Agent TARS (S4) as Tarko's server
// really sends it; the nested one is the event protocol that Tarko documents (S0). Where S0 has no word for something,
// the nested one says it with S4's type and members, so that both are complete.
//
// Read the constants below for the list of types, flat.go and nested.go for their members, projector.go for how the
// events of a log become them.
package tarko

import "slices"

// Type says which event it is.
type Type string

// The types of S4, which both vocabularies share unless nested.go has a word of its own.
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

// The types that S0 alone has.
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

// The types that neither has and a frontend needs to let its user act: custom events of ours.
const (
	TypeActionRequired Type = "action_required"
	TypeActionResult   Type = "action_result"
)

// Vocabulary is one of the two ways to say what a log holds.
type Vocabulary int

// The vocabularies.
const (
	Flat   Vocabulary = iota // S4
	Nested                   // S0
)

// shared are the types that mean the same in both vocabularies.
var shared = []Type{
	TypeUserMessage, TypeAssistantMessage, TypeAssistantThinkingMessage, TypeAssistantStreamingThinkingMessage,
	TypeAssistantStreamingToolCall, TypeToolCall, TypeToolResult, TypeAgentRunStart, TypeAgentRunEnd, TypePlanStart,
	TypePlanUpdate, TypePlanFinish, TypeSystem, TypeFinalAnswer, TypeFinalAnswerStreaming, TypeEnvironmentInput,
	TypeContextCompressed, TypeActionRequired, TypeActionResult,
}

// Types lists the types that a client of v may meet, beside those of custom events, sorted.
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

// reserved reports whether an application's own event must not be called t.
func reserved(t Type) bool {
	return t != TypeEnvironmentInput &&
		(t == "" || t == TypeUserQuery || slices.Contains(Flat.Types(), t) || slices.Contains(Nested.Types(), t))
}

// IsStreaming reports whether events of the type are increments, which a list of a session's events leaves out because
// the final event repeats them (as Tarko's server does not store them).
func (t Type) IsStreaming() bool {
	switch t {
	case TypeAssistantStreamingMessage, TypeAssistantStreamingThinkingMessage, TypeAssistantStreamingToolCall,
		TypeFinalAnswerStreaming, TypeAssistantMessageStart, TypeAssistantMessageDelta, TypeToolExecutionDelta:
		return true
	default:
		return false
	}
}
