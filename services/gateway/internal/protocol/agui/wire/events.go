package wire

import (
	"encoding/json"
)

// The types of events that this codec writes.
const (
	RunStarted  = "RUN_STARTED"
	RunFinished = "RUN_FINISHED"
	RunError    = "RUN_ERROR"

	TextStart   = "TEXT_MESSAGE_START"
	TextContent = "TEXT_MESSAGE_CONTENT"
	TextEnd     = "TEXT_MESSAGE_END"

	ReasoningStart          = "REASONING_START"
	ReasoningMessageStart   = "REASONING_MESSAGE_START"
	ReasoningMessageContent = "REASONING_MESSAGE_CONTENT"
	ReasoningMessageEnd     = "REASONING_MESSAGE_END"
	ReasoningEnd            = "REASONING_END"
	ReasoningEncryptedValue = "REASONING_ENCRYPTED_VALUE"

	ToolCallStart  = "TOOL_CALL_START"
	ToolCallArgs   = "TOOL_CALL_ARGS"
	ToolCallEnd    = "TOOL_CALL_END"
	ToolCallResult = "TOOL_CALL_RESULT"

	MessagesSnapshot = "MESSAGES_SNAPSHOT"
	ActivitySnapshot = "ACTIVITY_SNAPSHOT"
	Custom           = "CUSTOM"

	SubagentStarted  = "SUBAGENT_STARTED"
	SubagentFinished = "SUBAGENT_FINISHED"
	SubagentError    = "SUBAGENT_ERROR"
)

// Event is one event of AG-UI. Type says which members it has. A member that is not set is absent from the JSON.
type Event struct {
	Type          string   `json:"type"`
	Timestamp     int64    `json:"timestamp,omitzero"` // milliseconds
	Metadata      Metadata `json:"metadata,omitempty"`
	SubagentRunID string   `json:"subagentRunId,omitempty"`

	ThreadID        string       `json:"threadId,omitempty"`
	RunID           string       `json:"runId,omitempty"`
	ProtocolVersion string       `json:"protocolVersion,omitempty"`
	Outcome         *Outcome     `json:"outcome,omitempty"`
	Usage           []TokenUsage `json:"usage,omitempty"`
	Message         string       `json:"message,omitempty"`
	Code            string       `json:"code,omitempty"`

	MessageID    string          `json:"messageId,omitempty"`
	Role         string          `json:"role,omitempty"`
	Delta        string          `json:"delta,omitempty"`
	ToolCallID   string          `json:"toolCallId,omitempty"`
	ToolCallName string          `json:"toolCallName,omitempty"`
	ActivityType string          `json:"activityType,omitempty"`
	Content      json.RawMessage `json:"content,omitzero"`
	Name         string          `json:"name,omitempty"`
	Value        json.RawMessage `json:"value,omitzero"`
	Messages     []Message       `json:"messages,omitzero"`

	Subtype        string `json:"subtype,omitempty"`
	EntityID       string `json:"entityId,omitempty"`
	EncryptedValue string `json:"encryptedValue,omitempty"`

	ParentSubagentRunID string `json:"parentSubagentRunId,omitempty"`
	ParentToolCallID    string `json:"parentToolCallId,omitempty"`

	own bool // the client of the run has sent it
}

// Metadata is what AG-UI has no member for.
type Metadata map[string]any

// Outcome is how a run, or the run of a subagent, ended.
type Outcome struct {
	Type               string      `json:"type"` // success, interrupt, cancelled; of a subagent success, suspended
	PendingToolCallIDs []string    `json:"pendingToolCallIds,omitempty"`
	Interrupts         []Interrupt `json:"interrupts,omitempty"`
	InterruptIDs       []string    `json:"interruptIds,omitempty"`
}

// The types of outcomes.
const (
	outcomeSuccess   = "success"
	outcomeInterrupt = "interrupt"
	outcomeCancelled = "cancelled"
	outcomeSuspended = "suspended"
)

// Interrupt is an action that the user must take. A resume entry with its id answers it.
type Interrupt struct {
	ID             string          `json:"id"`
	Reason         string          `json:"reason"`
	Message        string          `json:"message,omitempty"`
	ToolCallID     string          `json:"toolCallId,omitempty"`
	ResponseSchema json.RawMessage `json:"responseSchema,omitzero"`
	ExpiresAt      string          `json:"expiresAt,omitempty"`
	Metadata       Metadata        `json:"metadata,omitempty"`
}

// TokenUsage is what a run used of one model.
type TokenUsage struct {
	Provider          string `json:"provider,omitempty"`
	Model             string `json:"model,omitempty"`
	InputTokens       int64  `json:"inputTokens"`
	OutputTokens      int64  `json:"outputTokens"`
	TotalTokens       int64  `json:"totalTokens"`
	ReasoningTokens   int64  `json:"reasoningTokens,omitzero"`
	CachedInputTokens int64  `json:"cachedInputTokens,omitzero"`
}

// Message is a message of a conversation, of any role.
type Message struct {
	ID             string          `json:"id"`
	Role           string          `json:"role"`
	SubagentRunID  string          `json:"subagentRunId,omitempty"`
	Content        json.RawMessage `json:"content,omitzero"` // a string, or parts; of an activity an object
	ToolCalls      []ToolCall      `json:"toolCalls,omitempty"`
	ToolCallID     string          `json:"toolCallId,omitempty"`
	ActivityType   string          `json:"activityType,omitempty"`
	EncryptedValue string          `json:"encryptedValue,omitempty"`
	Metadata       Metadata        `json:"metadata,omitempty"`

	text []byte // of a text or reasoning message that grows
}

// ToolCall is a call in a message of the assistant.
type ToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function FunctionCall `json:"function"`
	Metadata Metadata     `json:"metadata,omitempty"`
}

// FunctionCall is the tool of a call, and its arguments as JSON text.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// The roles of messages.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
	roleReasoning = "reasoning"
	roleActivity  = "activity"
)
