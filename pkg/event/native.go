package event

import (
	"encoding/json"
	"math"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

// Stage is the position of an event in its block: start, delta or stop (agent event protocol, Event Lifecycle).
type Stage string

// The stages. A start and a stop enclose zero or more deltas.
const (
	StageStart Stage = "start"
	StageDelta Stage = "delta"
	StageStop  Stage = "stop"
)

// Block says which block of the answer a content event belongs to.
type Block struct {
	MessageID  string `json:"messageId,omitempty"`
	BlockID    string `json:"blockId"`
	Stage      Stage  `json:"stage"`
	BlockIndex *int   `json:"blockIndex,omitempty"` // order of blocks; with start
	DeltaIndex *int   `json:"deltaIndex,omitempty"` // order of deltas in the block; with delta
	Discarded  bool   `json:"discarded,omitzero"`   // with stop: the block does not count, another replaces it
	Reason     string `json:"reason,omitempty"`     // with stop: why it was cut or discarded
}

// Metadata is the first event of a request (agent event protocol, Event Types).
type Metadata struct {
	ThreadID        string  `json:"threadId"`
	AgentID         string  `json:"agentId"`
	ProtocolVersion string  `json:"protocolVersion,omitempty"`
	Provider        string  `json:"provider,omitempty"` // who is asked: openai, anthropic, scripted
	Model           string  `json:"model,omitempty"`    // the model that is asked
	Extra           Members `json:",embed"`
}

// Text is output for the reader. Stop carries the whole text of the block.
type Text struct {
	Block
	Delta     string  `json:"delta,omitempty"`
	Text      string  `json:"text,omitempty"`      // with stop
	Signature string  `json:"signature,omitempty"` // with stop: data of the provider, which the next turn must return
	Extra     Members `json:",embed"`
}

// Thinking is the model's reasoning, where the model shows it.
type Thinking struct {
	Block
	Delta     string  `json:"delta,omitempty"`
	Thinking  string  `json:"thinking,omitempty"`  // with stop
	Signature string  `json:"signature,omitempty"` // with stop: data of the provider, which the next turn must return
	Extra     Members `json:",embed"`
}

// ToolCall is the model asking for a tool. The deltas concatenate to the JSON text of the arguments. The first stop of
// each tool in a request says what the tool is.
type ToolCall struct {
	Block
	ToolCallID  string           `json:"toolCallId"`
	Tool        string           `json:"name,omitempty"` // with start and stop
	Delta       string           `json:"delta,omitempty"`
	Args        json.RawMessage  `json:"args,omitzero"`       // with stop: an object
	Gate        ContinuationKind `json:"gate,omitempty"`      // with start and stop: what a client must do before the tool can have a result
	ByAgent     bool             `json:"byAgent,omitzero"`    // with stop: the agent itself runs the tool
	Signature   string           `json:"signature,omitempty"` // with stop: data of the provider, which the next turn must return
	Description string           `json:"description,omitempty"`
	Schema      json.RawMessage  `json:"schema,omitzero"` // of the arguments
	Extra       Members          `json:",embed"`
}

// ToolStatus says how a tool call ended.
type ToolStatus string

// The ends of a tool call.
const (
	ToolSuccess ToolStatus = "success"
	ToolFailed  ToolStatus = "error"
	ToolDenied  ToolStatus = "denied"  // the approval was denied
	ToolAborted ToolStatus = "aborted" // the request was aborted first
	ToolUnknown ToolStatus = "unknown" // it may or may not have happened
)

// ToolResult reports the progress and the end of a tool call: status and summary, never the payload (agent event
// protocol, Event Types).
type ToolResult struct {
	Block
	ToolCallID string      `json:"toolCallId"`
	Tool       string      `json:"name,omitempty"`  // with start and stop
	Delta      string      `json:"delta,omitempty"` // what the tool prints while it runs; see [Line.HasToolOutput]
	Status     ToolStatus  `json:"status,omitempty"`
	Summary    string      `json:"summary,omitempty"` // as the tool has written it, or the size of its output
	Media      []InputPart `json:"media,omitempty"`   // with stop: images and files that the tool gave, by URL or reference
	ElapsedMS  int64       `json:"elapsedMs,omitzero"`
	Extra      Members     `json:",embed"`
}

// FinishReason says why the model stopped.
type FinishReason string

// The finish reasons. The agent event protocol leaves the list open.
const (
	FinishStop           FinishReason = "stop"
	FinishLength         FinishReason = "length"
	FinishToolCalls      FinishReason = "tool_calls"
	FinishActionRequired FinishReason = "action_required" // a client must act; see Continuation
	FinishMaxTurns       FinishReason = "max_turns"
	FinishBudget         FinishReason = "budget"
	FinishContentFilter  FinishReason = "content_filter" // the provider cut the answer for its content
	FinishRefusal        FinishReason = "refusal"        // the model refused to answer
)

// Usage counts tokens, and money where a price is known: in US dollars, rounded by [RoundUSD].
type Usage struct {
	InputTokens       int64   `json:"inputTokens"`
	OutputTokens      int64   `json:"outputTokens"`
	CachedInputTokens int64   `json:"cachedInputTokens,omitzero"` // of the input tokens, those read from a cache
	CacheWriteTokens  int64   `json:"cacheWriteTokens,omitzero"`  // of the input tokens, those written into a cache
	ReasoningTokens   int64   `json:"reasoningTokens,omitzero"`   // part of the output tokens that is not shown
	CostUSD           float64 `json:"costUsd,omitzero"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:       u.InputTokens + v.InputTokens,
		OutputTokens:      u.OutputTokens + v.OutputTokens,
		CachedInputTokens: u.CachedInputTokens + v.CachedInputTokens,
		CacheWriteTokens:  u.CacheWriteTokens + v.CacheWriteTokens,
		ReasoningTokens:   u.ReasoningTokens + v.ReasoningTokens,
		CostUSD:           RoundUSD(u.CostUSD + v.CostUSD),
	}
}

// Sub returns what u counts beyond v, never less than nothing.
func (u Usage) Sub(v Usage) Usage {
	return Usage{
		InputTokens:       max(0, u.InputTokens-v.InputTokens),
		OutputTokens:      max(0, u.OutputTokens-v.OutputTokens),
		CachedInputTokens: max(0, u.CachedInputTokens-v.CachedInputTokens),
		CacheWriteTokens:  max(0, u.CacheWriteTokens-v.CacheWriteTokens),
		ReasoningTokens:   max(0, u.ReasoningTokens-v.ReasoningTokens),
		CostUSD:           RoundUSD(max(0, u.CostUSD-v.CostUSD)),
	}
}

// RoundUSD rounds a cost to nine decimals, as all costs are sent: sums of floating-point numbers have more digits than
// they are precise.
func RoundUSD(usd float64) float64 { return math.Round(usd*1e9) / 1e9 }

// Done ends a request that went well. Content is authoritative: it holds what counts, without discarded blocks.
type Done struct {
	MessageID    string       `json:"messageId"`
	ThreadID     string       `json:"threadId"`
	Content      []Content    `json:"content"`
	Usage        Usage        `json:"usage"`
	FinishReason FinishReason `json:"finishReason"`
	Extra        Members      `json:",embed"`
}

// Error ends a request that failed (agent event protocol, Error Handling).
type Error struct {
	ThreadID         string      `json:"threadId,omitempty"`
	Code             apierr.Code `json:"code"`
	Message          string      `json:"message"`
	Retryable        bool        `json:"retryable"`
	RunningRequestID string      `json:"runningRequestId,omitempty"` // with thread_busy: who runs on the thread
	Usage            *Usage      `json:"usage,omitempty"`            // of the request until the error
	Extra            Members     `json:",embed"`
}

// Aborted ends a request that a client stopped.
type Aborted struct {
	MessageID string    `json:"messageId,omitempty"`
	ThreadID  string    `json:"threadId,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Content   []Content `json:"content,omitempty"` // what was finished until then
	Usage     *Usage    `json:"usage,omitempty"`
	Extra     Members   `json:",embed"`
}

// ContinuationKind says what a client must do.
type ContinuationKind string

// The kinds of actions (agent event protocol, Client Action Flow).
const (
	ContinueTool     ContinuationKind = "tool"     // run a tool on the client's side and give its result
	ContinueApproval ContinuationKind = "approval" // allow or deny a call
	ContinueInput    ContinuationKind = "input"    // answer a question
)

// Continuation asks a client to act. The request then ends with Done{FinishReason: FinishActionRequired}; a new request
// on the same thread brings the result in context.actionResults.
type Continuation struct {
	ActionID  string             `json:"actionId"`
	Kind      ContinuationKind   `json:"kind"`
	Payload   ContinuationAction `json:"payload"`
	ExpiresAt time.Time          `json:"expiresAt,omitzero"`
	Extra     Members            `json:",embed"`
}

// ContinuationAction is the payload of a continuation: the call that waits.
type ContinuationAction struct {
	ToolCallID string          `json:"toolCallId,omitempty"`
	Tool       string          `json:"name,omitempty"`
	Args       json.RawMessage `json:"args,omitzero"`
	ArgsHash   string          `json:"argsHash,omitempty"` // an approval is for these arguments and no others
	Question   string          `json:"question,omitempty"` // what the user is asked
	Again      bool            `json:"again,omitzero"`     // the call has run with an unknown outcome; an approval repeats it

	// Members of an input that a tool asks for. AskedIn is the request whose call asks: the call is made again with the answer.
	Schema  json.RawMessage `json:"schema,omitzero"` // JSON Schema of the answer; nil = a text
	URL     string          `json:"url,omitempty"`   // page that the user must visit before the answer
	AskedIn string          `json:"askedIn,omitempty"`

	// Agent is set if a child request needs the action. ToolCallID is then the call of the child's agent, and the later
	// members describe the call that the child made.
	Agent *AskingAgent `json:"agent,omitempty"`
	Extra Members      `json:",embed"`
}

// AskingAgent is an agent that was called and asks for an action. Its own log has the action under another id.
type AskingAgent struct {
	AgentID    string `json:"agentId"`
	RequestID  string `json:"requestId"`
	ThreadID   string `json:"threadId"`
	ActionID   string `json:"actionId"`
	ToolCallID string `json:"toolCallId,omitempty"`
}

func (Metadata) Name() Name     { return NameMetadata }
func (Text) Name() Name         { return NameText }
func (Thinking) Name() Name     { return NameThinking }
func (ToolCall) Name() Name     { return NameToolCall }
func (ToolResult) Name() Name   { return NameToolResult }
func (Done) Name() Name         { return NameDone }
func (Error) Name() Name        { return NameError }
func (Aborted) Name() Name      { return NameAborted }
func (Continuation) Name() Name { return NameContinuation }

func (Metadata) sealed()     {}
func (Text) sealed()         {}
func (Thinking) sealed()     {}
func (ToolCall) sealed()     {}
func (ToolResult) sealed()   {}
func (Done) sealed()         {}
func (Error) sealed()        {}
func (Aborted) sealed()      {}
func (Continuation) sealed() {}
