package chat

import (
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// Completion is the response that is not a stream.
type Completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"` // Unix time in seconds
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   *Usage   `json:"usage,omitempty"`
}

// Choice is the one answer of a completion.
type Choice struct {
	Index        int     `json:"index"`
	Message      Answer  `json:"message"`
	Logprobs     *string `json:"logprobs"` // null
	FinishReason string  `json:"finish_reason"`
}

// Answer is the message of a completion.
type Answer struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"` // null if the answer is calls alone
	Refusal   *string    `json:"refusal"` // null
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// ToolCall is a call of a function that the client runs. Index is set in chunks.
type ToolCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Chunk is an event of a stream.
type Chunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []ChunkChoice `json:"choices"`
	Usage   *Usage        `json:"usage,omitempty"`
}

// ChunkChoice is what a chunk adds to the answer.
type ChunkChoice struct {
	Index        int     `json:"index"`
	Delta        Delta   `json:"delta"`
	FinishReason *string `json:"finish_reason"` // null until the last chunk
}

// Delta is a part of the answer.
type Delta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitzero"`
	Reasoning string     `json:"reasoning_content,omitempty"` // as DeepSeek and others name it; OpenAI has no member for it
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int64         `json:"prompt_tokens"`
	CompletionTokens int64         `json:"completion_tokens"`
	TotalTokens      int64         `json:"total_tokens"`
	Prompt           promptDetails `json:"prompt_tokens_details"`
	Completion       outputDetails `json:"completion_tokens_details"`
}

type promptDetails struct {
	CachedTokens int64 `json:"cached_tokens"`
}

type outputDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

// The values of the member object.
const (
	objectCompletion = "chat.completion"
	objectChunk      = "chat.completion.chunk"
)

const roleAssistant = "assistant"

func usageOf(u event.Usage) *Usage {
	return &Usage{
		PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens,
		Prompt: promptDetails{u.CachedInputTokens}, Completion: outputDetails{u.ReasoningTokens},
	}
}

// prefix is the beginning of the id of a completion, which is followed by that of its request.
const prefix = "chatcmpl-"

// ID returns the id of a completion.
func ID(requestID string) string { return prefix + requestID }

// RequestID returns the request of a completion. The id of a request is also accepted.
func RequestID(completionID string) string { return strings.TrimPrefix(completionID, prefix) }

// finishReason translates the reason of the end.
func finishReason(r event.FinishReason) string {
	switch r {
	case event.FinishActionRequired, event.FinishToolCalls:
		return "tool_calls"
	case event.FinishLength, event.FinishMaxTurns, event.FinishBudget:
		return "length"
	case event.FinishContentFilter:
		return "content_filter"
	default:
		return "stop"
	}
}

func seconds(t time.Time) int64 { return max(0, t.Unix()) }
