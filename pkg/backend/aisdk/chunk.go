package aisdk

import (
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// The types of chunks that have a meaning here. Others are ignored.
const (
	start           = "start"
	finish          = "finish"
	messageMetadata = "message-metadata"
	failed          = "error"
	aborted         = "abort"
	resetStep       = "reset-step"

	textStart      = "text-start"
	textDelta      = "text-delta"
	textEnd        = "text-end"
	reasoningStart = "reasoning-start"
	reasoningDelta = "reasoning-delta"
	reasoningEnd   = "reasoning-end"

	toolInputStart      = "tool-input-start"
	toolInputDelta      = "tool-input-delta"
	toolInputAvailable  = "tool-input-available"
	toolInputError      = "tool-input-error"
	toolOutputAvailable = "tool-output-available"
	toolOutputError     = "tool-output-error"
	toolOutputDenied    = "tool-output-denied"
	toolApprovalRequest = "tool-approval-request"

	sourceURL      = "source-url"
	sourceDocument = "source-document"
	file           = "file"
	reasoningFile  = "reasoning-file"

	data = "data-" // and a name

	done = "[DONE]" // the last line, which is not JSON
)

// chunk is one part of a UI message stream. Type says which members count.
type chunk struct {
	Type string `json:"type"`

	MessageID       string          `json:"messageId"`
	MessageMetadata json.RawMessage `json:"messageMetadata"`
	FinishReason    string          `json:"finishReason"`
	ErrorText       string          `json:"errorText"`

	ID               string          `json:"id"`
	Delta            string          `json:"delta"`
	ProviderMetadata json.RawMessage `json:"providerMetadata"`

	ToolCallID       string          `json:"toolCallId"`
	ToolName         string          `json:"toolName"`
	Dynamic          bool            `json:"dynamic"`
	ProviderExecuted bool            `json:"providerExecuted"`
	InputTextDelta   string          `json:"inputTextDelta"`
	Input            json.RawMessage `json:"input"`
	Output           json.RawMessage `json:"output"`
	Preliminary      bool            `json:"preliminary"`
	ApprovalID       string          `json:"approvalId"`
	IsAutomatic      bool            `json:"isAutomatic"`
	Signature        string          `json:"signature"`
	InputSchemaInput json.RawMessage `json:"inputSchemaInput"`

	SourceID  string          `json:"sourceId"`
	URL       string          `json:"url"`
	Title     string          `json:"title"`
	Filename  string          `json:"filename"`
	MediaType string          `json:"mediaType"`
	Data      json.RawMessage `json:"data"`
}

// metadata is what is read of the metadata of a message. Applications may write it as they like; these are the names that the
// documentation of the AI SDK uses, and those of agentbus.
type metadata struct {
	Model        string             `json:"model"`
	Usage        tokens             `json:"usage"`
	TotalUsage   tokens             `json:"totalUsage"`
	FinishReason event.FinishReason `json:"finishReason"`
	Error        struct {
		Retryable bool `json:"retryable"`
	} `json:"error"`
}

// tokens is the AI SDK's LanguageModelUsage, also in its earlier form.
type tokens struct {
	InputTokens       int64   `json:"inputTokens"`
	OutputTokens      int64   `json:"outputTokens"`
	ReasoningTokens   int64   `json:"reasoningTokens"`
	CachedInputTokens int64   `json:"cachedInputTokens"`
	CostUSD           float64 `json:"costUsd"`
	InputTokenDetails struct {
		CacheReadTokens  int64 `json:"cacheReadTokens"`
		CacheWriteTokens int64 `json:"cacheWriteTokens"`
	} `json:"inputTokenDetails"`
	OutputTokenDetails struct {
		ReasoningTokens int64 `json:"reasoningTokens"`
	} `json:"outputTokenDetails"`
}

// usage returns the counts as event.Usage.
func (t tokens) usage() event.Usage {
	return event.Usage{
		InputTokens: max(0, t.InputTokens), OutputTokens: max(0, t.OutputTokens), CostUSD: max(0, t.CostUSD),
		ReasoningTokens:   max(0, t.ReasoningTokens, t.OutputTokenDetails.ReasoningTokens),
		CachedInputTokens: max(0, t.CachedInputTokens, t.InputTokenDetails.CacheReadTokens),
		CacheWriteTokens:  max(0, t.InputTokenDetails.CacheWriteTokens),
	}
}

// learn adds the metadata of a chunk, member by member: one of another form does not hide the others.
func (m *metadata) learn(text json.RawMessage) {
	var members map[string]json.RawMessage
	if jsonv2.Unmarshal(text, &members) != nil {
		return
	}
	for name, into := range map[string]any{
		"model": &m.Model, "usage": &m.Usage, "totalUsage": &m.TotalUsage, "finishReason": &m.FinishReason, "error": &m.Error,
	} {
		if value, ok := members[name]; ok {
			_ = jsonv2.Unmarshal(value, into) // a member of another form says nothing
		}
	}
}
