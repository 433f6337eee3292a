package responses

import "github.com/agentbus/agentbus/pkg/event"

// The types of events that this codec writes.
const (
	created    = "response.created"
	queued     = "response.queued"
	inProgress = "response.in_progress"
	completed  = "response.completed"
	failed     = "response.failed"
	incomplete = "response.incomplete"

	itemAdded = "response.output_item.added"
	itemDone  = "response.output_item.done"
	partAdded = "response.content_part.added"
	partDone  = "response.content_part.done"
	textDelta = "response.output_text.delta"
	textDone  = "response.output_text.done"

	summaryPartAdded = "response.reasoning_summary_part.added"
	summaryPartDone  = "response.reasoning_summary_part.done"
	summaryTextDelta = "response.reasoning_summary_text.delta"
	summaryTextDone  = "response.reasoning_summary_text.done"

	functionDelta = "response.function_call_arguments.delta"
	functionDone  = "response.function_call_arguments.done"

	mcpInProgress = "response.mcp_call.in_progress"
	mcpDelta      = "response.mcp_call_arguments.delta"
	mcpDone       = "response.mcp_call_arguments.done"
	mcpCompleted  = "response.mcp_call.completed"
	mcpFailed     = "response.mcp_call.failed"
)

// Event is an event of a stream. Type says which of the later members it has; a member that it does not have is absent.
type Event struct {
	Type     string `json:"type"`
	Sequence int    `json:"sequence_number"`

	Response *Response `json:"response,omitzero"`

	OutputIndex  *int   `json:"output_index,omitzero"`
	ItemID       string `json:"item_id,omitempty"`
	ContentIndex *int   `json:"content_index,omitzero"`
	SummaryIndex *int   `json:"summary_index,omitzero"`

	Item      *Item   `json:"item,omitzero"`
	Part      *Part   `json:"part,omitzero"`
	Delta     *string `json:"delta,omitzero"`
	Text      *string `json:"text,omitzero"`
	Name      string  `json:"name,omitempty"`
	Arguments *string `json:"arguments,omitzero"`
	Logprobs  []empty `json:"logprobs,omitzero"`
}

// empty is an entry of a list that this server leaves empty.
type empty struct{}

// The types of items.
const (
	typeMessage          = "message"
	typeReasoning        = "reasoning"
	typeFunctionCall     = "function_call"
	typeFunctionOutput   = "function_call_output"
	typeMCPCall          = "mcp_call"
	typeMCPTools         = "mcp_list_tools"
	typeApprovalRequest  = "mcp_approval_request"
	typeApprovalResponse = "mcp_approval_response"
	typeReference        = "item_reference"
)

// ServerLabel is the server of the tools that the agent runs by itself: these APIs have no other item for a tool that is neither
// the client's nor OpenAI's.
const ServerLabel = "agentbus"

// Item is an item of the output or of the input. Type says which of the later members it has.
type Item struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status string `json:"status,omitempty"` // in_progress, completed, incomplete, failed

	Role    string `json:"role,omitempty"`
	Phase   string `json:"phase,omitempty"` // final_answer
	Content []Part `json:"content,omitzero"`

	Summary   []Part `json:"summary,omitzero"`
	Encrypted string `json:"encrypted_content,omitempty"`

	CallID      string     `json:"call_id,omitempty"`
	Name        string     `json:"name,omitempty"`
	Arguments   *string    `json:"arguments,omitzero"`
	ServerLabel string     `json:"server_label,omitempty"`
	RequestID   string     `json:"approval_request_id,omitempty"`
	Question    string     `json:"question,omitempty"` // what the user decides, where it is not evident; no member of OpenAI
	Approve     *bool      `json:"approve,omitzero"`
	Reason      string     `json:"reason,omitempty"`
	Output      *string    `json:"output,omitzero"`
	Error       *callError `json:"error,omitzero"`
}

// callError is why a tool of the agent failed.
type callError struct {
	Type    string `json:"type"` // mcp_tool_execution_error
	Content []Part `json:"content"`
}

// Part is a part of an item.
type Part struct {
	Type        string  `json:"type"` // output_text, summary_text, input_text, input_image, input_file, text
	Text        *string `json:"text,omitzero"`
	Annotations []empty `json:"annotations,omitzero"`
	Logprobs    []empty `json:"logprobs,omitzero"`
	Detail      string  `json:"detail,omitempty"`
	ImageURL    string  `json:"image_url,omitempty"`
	FileURL     string  `json:"file_url,omitempty"`
	FileData    string  `json:"file_data,omitempty"`
	Filename    string  `json:"filename,omitempty"`
}

func outputText(text string) Part {
	return Part{Type: "output_text", Text: &text, Annotations: []empty{}, Logprobs: []empty{}}
}

func summaryText(text string) Part { return Part{Type: "summary_text", Text: &text} }

// The statuses of responses and items.
const (
	statusQueued     = "queued"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

// Usage counts tokens.
type Usage struct {
	InputTokens   int64         `json:"input_tokens"`
	InputDetails  inputDetails  `json:"input_tokens_details"`
	OutputTokens  int64         `json:"output_tokens"`
	OutputDetails outputDetails `json:"output_tokens_details"`
	TotalTokens   int64         `json:"total_tokens"`
}

type inputDetails struct {
	CachedTokens     int64 `json:"cached_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
}

type outputDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

func usageOf(u *event.Usage) *Usage {
	if u == nil {
		return nil
	}
	return &Usage{
		InputTokens: u.InputTokens, InputDetails: inputDetails{u.CachedInputTokens, u.CacheWriteTokens},
		OutputTokens: u.OutputTokens, OutputDetails: outputDetails{u.ReasoningTokens}, TotalTokens: u.InputTokens + u.OutputTokens,
	}
}
