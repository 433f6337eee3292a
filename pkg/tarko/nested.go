package tarko

import "github.com/go-json-experiment/json/jsontext"

// UserQuery is another name for a UserMessage (S0, user_query). Clients may send it; the log has a UserMessage.
type UserQuery struct {
	Query Content `json:"query"`
}

// AssistantMessageStart opens a message (S0, assistant_message_start).
type AssistantMessageStart struct {
	Role      string `json:"role"`
	MessageID string `json:"messageId,omitempty"`
}

// AssistantMessageDelta is an increment of a message (S0, assistant_message_delta). S0's accumulated is left out: it
// would make a long answer grow with the square of its length.
type AssistantMessageDelta struct {
	Delta     string `json:"delta"`
	MessageID string `json:"messageId,omitempty"`
}

// FunctionCall is a call that is about to run, as S0 writes a tool_call. Start time and tool are S4's.
type FunctionCall struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Kind      string         `json:"type"` // "function"
	StartTime int64          `json:"startTime"`
	Tool      ToolInfo       `json:"tool"`
}

// ToolExecutionStart says that a tool begins (S0, tool_execution_start).
type ToolExecutionStart struct {
	ToolCallID string `json:"toolCallId"`
	Name       string `json:"name"`
}

// ToolExecutionDelta is what a tool prints while it runs (S0, tool_execution_delta).
type ToolExecutionDelta struct {
	ToolCallID string `json:"toolCallId"`
	Delta      string `json:"delta"`
}

// FunctionResult is what came of a call, as S0 writes a tool_result. What follows error is S4's.
type FunctionResult struct {
	ToolCallID       string     `json:"toolCallId"`
	Name             string     `json:"name"`
	Content          string     `json:"content"`
	Success          bool       `json:"success"`
	Error            string     `json:"error,omitempty"`
	ElapsedMs        int64      `json:"elapsedMs"`
	ProcessedContent []Part     `json:"processedContent,omitempty"`
	Extra            *ToolExtra `json:"_extra,omitempty"`
}

// SessionStart is the first event of a session (S0, session_start). No log has it: see [SessionStarted].
type SessionStart struct {
	SessionID string `json:"sessionId"`
	AgentName string `json:"agentName"`
	Timestamp int64  `json:"timestamp"` // ms since 1970
}

// SessionEnd is the last event of a session that was deleted (S0, session_end). No log has it: see [SessionEnded].
type SessionEnd struct {
	SessionID    string `json:"sessionId"`
	Duration     int64  `json:"duration"` // ms
	MessageCount int    `json:"messageCount"`
}

// Error says why a run failed (S0, error). The flat vocabulary says it with a System event.
type Error struct {
	Error       string         `json:"error"`
	Code        string         `json:"code,omitempty"`
	Details     jsontext.Value `json:"details,omitzero"`
	Recoverable bool           `json:"recoverable"` // the same query may succeed later
}

// ContextCompressed says that older turns were summed up for the model (S0, context_compressed).
type ContextCompressed struct {
	OriginalLength   int64   `json:"originalLength"`
	CompressedLength int64   `json:"compressedLength"`
	CompressionRatio float64 `json:"compressionRatio"`
	Strategy         string  `json:"strategy"`
}

// Type implements [Payload].
func (UserQuery) Type() Type             { return TypeUserQuery }
func (AssistantMessageStart) Type() Type { return TypeAssistantMessageStart }
func (AssistantMessageDelta) Type() Type { return TypeAssistantMessageDelta }
func (FunctionCall) Type() Type          { return TypeToolCall }
func (ToolExecutionStart) Type() Type    { return TypeToolExecutionStart }
func (ToolExecutionDelta) Type() Type    { return TypeToolExecutionDelta }
func (FunctionResult) Type() Type        { return TypeToolResult }
func (SessionStart) Type() Type          { return TypeSessionStart }
func (SessionEnd) Type() Type            { return TypeSessionEnd }
func (Error) Type() Type                 { return TypeError }
func (ContextCompressed) Type() Type     { return TypeContextCompressed }
