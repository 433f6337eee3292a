package agui

import (
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// The types of events that have a meaning here. Those of later versions, and RAW, are ignored.
const (
	runFinished = "RUN_FINISHED"
	runError    = "RUN_ERROR"

	textStart   = "TEXT_MESSAGE_START"
	textContent = "TEXT_MESSAGE_CONTENT"
	textEnd     = "TEXT_MESSAGE_END"
	textChunk   = "TEXT_MESSAGE_CHUNK"

	reasoningContent   = "REASONING_MESSAGE_CONTENT"
	reasoningChunk     = "REASONING_MESSAGE_CHUNK"
	reasoningEncrypted = "REASONING_ENCRYPTED_VALUE"
	thinkingContent    = "THINKING_TEXT_MESSAGE_CONTENT" // of versions before 1.0

	toolCallStart  = "TOOL_CALL_START"
	toolCallArgs   = "TOOL_CALL_ARGS"
	toolCallEnd    = "TOOL_CALL_END"
	toolCallChunk  = "TOOL_CALL_CHUNK"
	toolCallResult = "TOOL_CALL_RESULT"

	stateSnapshot    = "STATE_SNAPSHOT"
	stateDelta       = "STATE_DELTA"
	messagesSnapshot = "MESSAGES_SNAPSHOT"
	activitySnapshot = "ACTIVITY_SNAPSHOT"
	activityDelta    = "ACTIVITY_DELTA"
	custom           = "CUSTOM"

	subagentStarted  = "SUBAGENT_STARTED"
	subagentFinished = "SUBAGENT_FINISHED"
	subagentError    = "SUBAGENT_ERROR"
)

// aguiEvent is one event. Type says which members count.
type aguiEvent struct {
	Type          string `json:"type"`
	SubagentRunID string `json:"subagentRunId"`

	MessageID       string `json:"messageId"`
	Role            string `json:"role"`
	Delta           any    `json:"delta"` // a string, or the operations of a patch
	ToolCallID      string `json:"toolCallId"`
	ToolCallName    string `json:"toolCallName"`
	ParentMessageID string `json:"parentMessageId"`
	EntityID        string `json:"entityId"`
	EncryptedValue  string `json:"encryptedValue"`

	Content      json.RawMessage `json:"content"`
	Snapshot     json.RawMessage `json:"snapshot"`
	Patch        json.RawMessage `json:"patch"`
	ActivityType string          `json:"activityType"`
	Name         string          `json:"name"`
	Value        json.RawMessage `json:"value"`
	Messages     []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`

	Message  string          `json:"message"`
	Code     string          `json:"code"`
	Outcome  outcome         `json:"outcome"`
	Usage    []tokenUsage    `json:"usage"`
	Metadata json.RawMessage `json:"metadata"`
}

// metadata is what agentbus writes into the metadata of its events. Those of other servers may look as they like.
type metadata struct {
	Retryable    bool               `json:"retryable"`
	FinishReason event.FinishReason `json:"finishReason"`
	Status       event.ToolStatus   `json:"status"`
	CostUSD      float64            `json:"costUsd"`
}

func (e aguiEvent) about() (m metadata) {
	if jsonv2.Unmarshal(e.Metadata, &m) != nil {
		return metadata{}
	}
	return m
}

type outcome struct {
	Type       string      `json:"type"` // success, interrupt, cancelled
	Interrupts []interrupt `json:"interrupts"`
}

type tokenUsage struct {
	Model             string `json:"model"`
	InputTokens       int64  `json:"inputTokens"`
	OutputTokens      int64  `json:"outputTokens"`
	ReasoningTokens   int64  `json:"reasoningTokens"`
	CachedInputTokens int64  `json:"cachedInputTokens"`
	CacheWriteTokens  int64  `json:"cacheWriteInputTokens"`
}

// text is the delta of an event as text.
func (e aguiEvent) text() string {
	text, _ := e.Delta.(string)
	return text
}

// used is the usage of all models of a run.
func (e aguiEvent) used() (used event.Usage, model string) {
	for _, u := range e.Usage {
		used = used.Add(event.Usage{
			InputTokens: max(0, u.InputTokens), OutputTokens: max(0, u.OutputTokens), ReasoningTokens: max(0, u.ReasoningTokens),
			CachedInputTokens: max(0, u.CachedInputTokens), CacheWriteTokens: max(0, u.CacheWriteTokens),
		})
		model = u.Model
	}
	used.CostUSD = max(0, e.about().CostUSD)
	return used, model
}
