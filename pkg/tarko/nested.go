package tarko

import "encoding/json"

// UserQuery is an alias of UserMessage (user_query of the Agent Protocol). Clients may send it; the log contains a
// UserMessage.
type UserQuery struct {
	Query Content `json:"query"`
}

// AssistantMessageStart opens a message (assistant_message_start of the Agent Protocol).
type AssistantMessageStart struct {
	Role      string `json:"role"`
	MessageID string `json:"messageId,omitempty"`
}

// AssistantMessageDelta is an increment of a message (assistant_message_delta of the Agent Protocol). The field
// accumulated of that protocol is omitted: with it, the size of a long answer would grow with the square of its length.
type AssistantMessageDelta struct {
	Delta     string `json:"delta"`
	MessageID string `json:"messageId,omitempty"`
}

// FunctionCall is a call that is about to run, in the format of the Agent Protocol's tool_call. StartTime and Tool are
// fields of Agent TARS.
type FunctionCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Kind      string          `json:"type"` // "function"
	StartTime int64           `json:"startTime"`
	Tool      ToolInfo        `json:"tool"`
}

// ToolExecutionStart is the start of a tool's run (tool_execution_start of the Agent Protocol).
type ToolExecutionStart struct {
	ToolCallID string `json:"toolCallId"`
	Name       string `json:"name"`
}

// ToolExecutionDelta is output of a running tool (tool_execution_delta of the Agent Protocol).
type ToolExecutionDelta struct {
	ToolCallID string `json:"toolCallId"`
	Delta      string `json:"delta"`
}

// FunctionResult is the result of a call, in the format of the Agent Protocol's tool_result. The fields after Error are
// those of Agent TARS.
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

// SessionStart is the first event of a session (session_start of the Agent Protocol). It is not in a log: see
// [SessionStarted].
type SessionStart struct {
	SessionID string `json:"sessionId"`
	AgentName string `json:"agentName"`
	Timestamp int64  `json:"timestamp"` // ms since 1970
}

// SessionEnd is the last event of a deleted session (session_end of the Agent Protocol). It is not in a log: see
// [SessionEnded].
type SessionEnd struct {
	SessionID    string `json:"sessionId"`
	Duration     int64  `json:"duration"` // ms
	MessageCount int    `json:"messageCount"`
}

// Error is the failure of a run (error of the Agent Protocol). In the flat vocabulary it is a System event.
type Error struct {
	Error       string          `json:"error"`
	Code        string          `json:"code,omitempty"`
	Details     json.RawMessage `json:"details,omitzero"` // an object: requestId, turns, usage
	Recoverable bool            `json:"recoverable"`      // the same query may succeed later
}

// ContextCompressed reports that older turns were summarised for the model (context_compressed of the Agent Protocol).
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
