package wire

import "encoding/json"

// The types of chunks that this codec writes. The type of a data chunk is [Data] and a name.
const (
	Start           = "start"
	StartStep       = "start-step"
	FinishStep      = "finish-step"
	ResetStep       = "reset-step"
	MessageMetadata = "message-metadata"
	Finish          = "finish"
	Error           = "error"
	Abort           = "abort"

	TextStart      = "text-start"
	TextDelta      = "text-delta"
	TextEnd        = "text-end"
	ReasoningStart = "reasoning-start"
	ReasoningDelta = "reasoning-delta"
	ReasoningEnd   = "reasoning-end"

	ToolInputStart       = "tool-input-start"
	ToolInputDelta       = "tool-input-delta"
	ToolInputAvailable   = "tool-input-available"
	ToolOutputAvailable  = "tool-output-available"
	ToolOutputError      = "tool-output-error"
	ToolOutputDenied     = "tool-output-denied"
	ToolApprovalRequest  = "tool-approval-request"
	ToolApprovalResponse = "tool-approval-response"

	SteeringMessage = "steering-message"
	Data            = "data-"
)

// Chunk is one part of a UI message stream. Type says which members it has. A member that is not set is absent from the JSON:
// the published client refuses a null, and a chunk of a type that it does not have.
type Chunk struct {
	Type string `json:"type"`

	ID               string          `json:"id,omitempty"`
	Delta            string          `json:"delta,omitempty"`
	ProviderMetadata json.RawMessage `json:"providerMetadata,omitzero"`

	ToolCallID       string          `json:"toolCallId,omitempty"`
	ToolName         string          `json:"toolName,omitempty"`
	Dynamic          bool            `json:"dynamic,omitzero"`
	ProviderExecuted *bool           `json:"providerExecuted,omitempty"`
	InputTextDelta   string          `json:"inputTextDelta,omitempty"`
	Input            json.RawMessage `json:"input,omitzero"`
	Output           json.RawMessage `json:"output,omitzero"`

	ApprovalID         string    `json:"approvalId,omitempty"`
	ApprovalDescriptor *Approval `json:"approvalDescriptor,omitempty"`
	Approved           *bool     `json:"approved,omitempty"`
	Reason             string    `json:"reason,omitempty"`

	Data      json.RawMessage `json:"data,omitzero"`
	Transient bool            `json:"transient,omitzero"`
	Parts     []Part          `json:"parts,omitempty"`

	MessageID       string    `json:"messageId,omitempty"`
	MessageMetadata *Metadata `json:"messageMetadata,omitempty"`
	FinishReason    string    `json:"finishReason,omitempty"`
	ErrorText       string    `json:"errorText,omitempty"`
}

// Approval describes an approval beyond the call that it is for.
type Approval struct {
	ExpiresAt string `json:"expiresAt,omitempty"`
	Again     bool   `json:"again,omitzero"`     // the call has run with an unknown outcome
	AgentID   string `json:"agentId,omitempty"`  // of the agent that was called and asks
	ArgsHash  string `json:"argsHash,omitempty"` // the approval is for these arguments
}

// Metadata is the metadata of a message. A client merges what later chunks have into it.
type Metadata struct {
	RequestID    string   `json:"requestId,omitempty"`
	ThreadID     string   `json:"threadId,omitempty"`
	AgentID      string   `json:"agentId,omitempty"`
	CreatedAt    string   `json:"createdAt,omitempty"`
	Provider     string   `json:"provider,omitempty"`
	Model        string   `json:"model,omitempty"`
	Usage        *Usage   `json:"usage,omitempty"`
	FinishReason string   `json:"finishReason,omitempty"` // as the native protocol names it
	Error        *Failure `json:"error,omitempty"`
}

// Usage counts the tokens of a request, as the AI SDK names them, and its cost.
type Usage struct {
	InputTokens       int64   `json:"inputTokens"`
	OutputTokens      int64   `json:"outputTokens"`
	TotalTokens       int64   `json:"totalTokens"`
	ReasoningTokens   int64   `json:"reasoningTokens,omitzero"`
	CachedInputTokens int64   `json:"cachedInputTokens,omitzero"`
	CostUSD           float64 `json:"costUsd,omitzero"`
}

// Failure is why a request failed, for programs: the error chunk has a text alone.
type Failure struct {
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`
}

// result is the output of a tool call that the server ran.
type result struct {
	Status    string `json:"status"`
	Summary   string `json:"summary"`
	ElapsedMS int64  `json:"elapsedMs,omitzero"`
	Media     []Part `json:"media,omitempty"`

	// What the model reads, if the client may read the output of tools.
	Content    string `json:"content,omitempty"`
	ContentURL string `json:"contentUrl,omitempty"` // instead of a large content
}
