package tarko

import "encoding/json"

// Payload is the data of one type of event, the field Data of [eventstream.Event].
type Payload interface{ Type() Type }

// UserMessage is a message of the user (UserMessageEvent of Agent TARS; user_message of the Agent Protocol).
type UserMessage struct {
	Content Content `json:"content"`
	Role    string  `json:"role,omitempty"` // "user", in the nested vocabulary
}

// AssistantMessage is the message of one turn of the model (AssistantMessageEvent of Agent TARS; assistant_message of
// the Agent Protocol).
type AssistantMessage struct {
	Content      string            `json:"content"`
	Role         string            `json:"role,omitempty"`       // "assistant", in the nested vocabulary
	RawContent   string            `json:"rawContent,omitempty"` // as the model wrote it
	ToolCalls    []MessageToolCall `json:"toolCalls,omitempty"`
	FinishReason string            `json:"finishReason,omitempty"` // a native reason, "abort" or "error"
	TTFTMs       int64             `json:"ttftMs,omitzero"`        // from the start of the turn to its first block
	TTLTMs       int64             `json:"ttltMs,omitzero"`        // from the start of the turn to its end
	ElapsedMs    int64             `json:"elapsedMs,omitzero"`     // equal to TTLTMs, under the name of Agent TARS
	MessageID    string            `json:"messageId,omitempty"`    // shared with the increments
}

// MessageToolCall is a call as the model made it (ChatCompletionMessageToolCall of Agent TARS).
type MessageToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // "function"
	Function FunctionText `json:"function"`
}

// FunctionText names a function and the JSON text of its arguments.
type FunctionText struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// AssistantThinkingMessage is the thinking of one turn, if the model returns it.
type AssistantThinkingMessage struct {
	Content            string `json:"content"`
	IsComplete         bool   `json:"isComplete"`
	ThinkingDurationMs int64  `json:"thinkingDurationMs,omitzero"`
	MessageID          string `json:"messageId,omitempty"`
}

// AssistantStreamingMessage is an increment of an AssistantMessage (AssistantStreamingMessageEvent of Agent TARS). If
// it is complete, neither another increment nor an AssistantMessage follows: the agent starts the text again under
// another id.
type AssistantStreamingMessage struct {
	Content    string `json:"content"`
	IsComplete bool   `json:"isComplete"`
	MessageID  string `json:"messageId,omitempty"`
}

// AssistantStreamingThinkingMessage is an increment of an AssistantThinkingMessage.
type AssistantStreamingThinkingMessage struct {
	Content    string `json:"content"`
	IsComplete bool   `json:"isComplete"`
	MessageID  string `json:"messageId,omitempty"`
}

// AssistantStreamingToolCall is an increment of a call's arguments (AssistantStreamingToolCallEvent of Agent TARS). If
// a complete call is followed by increments under the same id, the call was started again.
type AssistantStreamingToolCall struct {
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`
	Arguments  string `json:"arguments"`
	IsComplete bool   `json:"isComplete"`
	MessageID  string `json:"messageId,omitempty"`
}

// ToolCall is a call that is about to run (ToolCallEvent of Agent TARS).
type ToolCall struct {
	ToolCallID string          `json:"toolCallId"`
	Name       string          `json:"name"`
	Arguments  json.RawMessage `json:"arguments"` // an object
	StartTime  int64           `json:"startTime"` // ms since 1970
	Tool       ToolInfo        `json:"tool"`
}

// ToolInfo describes a tool as the model got it.
type ToolInfo struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the arguments
}

// ToolResult is the result of a call (ToolResultEvent of Agent TARS).
type ToolResult struct {
	ToolCallID       string          `json:"toolCallId"`
	Name             string          `json:"name"`
	Content          json.RawMessage `json:"content"`                    // any JSON; text is a string; with images or files, the parts
	ProcessedContent []Part          `json:"processedContent,omitempty"` // the parts, if the result has images or files
	ElapsedMs        int64           `json:"elapsedMs"`
	Error            string          `json:"error,omitempty"`
	Extra            *ToolExtra      `json:"_extra,omitempty"`
}

// ToolExtra has fields of a result that Agent TARS does not define.
type ToolExtra struct {
	Status string `json:"status,omitempty"` // the native status, if the call failed
	Size   int64  `json:"size,omitzero"`    // length in bytes of a result that is too large for an event
	SHA256 string `json:"sha256,omitempty"` // hash of such a result; the content is its summary
}

// AgentRunStart opens a run (AgentRunStartEvent of Agent TARS).
type AgentRunStart struct {
	SessionID        string     `json:"sessionId"`
	RunOptions       RunOptions `json:"runOptions"`
	Provider         string     `json:"provider,omitempty"`
	Model            string     `json:"model,omitempty"`
	ModelDisplayName string     `json:"modelDisplayName,omitempty"`
	AgentName        string     `json:"agentName,omitempty"`
}

// RunOptions is the input of a run.
type RunOptions struct {
	Input  Content `json:"input"`
	Stream bool    `json:"stream,omitzero"` // recordings of Tarko omit it
}

// Status is the state of an agent (AgentStatus of Agent TARS).
type Status string

// The states at the end of a run.
const (
	StatusIdle      Status = "idle"
	StatusExecuting Status = "executing" // in recordings of Tarko only
	StatusAborted   Status = "aborted"
	StatusFailed    Status = "error"
)

// AgentRunEnd ends a run, also one that failed (AgentRunEndEvent of Agent TARS). It is the last event of its request.
type AgentRunEnd struct {
	SessionID  string `json:"sessionId"`
	Iterations int    `json:"iterations"` // turns of the model
	ElapsedMs  int64  `json:"elapsedMs"`
	Status     Status `json:"status"`
}

// PlanStart opens a plan.
type PlanStart struct {
	SessionID string `json:"sessionId"`
}

// PlanUpdate is the whole current plan.
type PlanUpdate struct {
	SessionID string     `json:"sessionId"`
	Steps     []PlanStep `json:"steps"`
}

// PlanStep is a step of a plan.
type PlanStep struct {
	Content string `json:"content"`
	Done    bool   `json:"done"`
}

// PlanFinish closes a plan.
type PlanFinish struct {
	SessionID string `json:"sessionId"`
	Summary   string `json:"summary"`
}

// The levels of a System event. In the flat vocabulary an error ends the run, because Tarko's clients read it so.
const (
	LevelInfo    = "info"
	LevelWarning = "warning"
	LevelError   = "error"
)

// System is a notice that is not part of the answer (SystemEvent of Agent TARS).
type System struct {
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitzero"` // an object
}

// FinalAnswer is a report that concludes the work (FinalAnswerEvent of Agent TARS).
type FinalAnswer struct {
	Content        string `json:"content"`
	IsDeepResearch bool   `json:"isDeepResearch"`
	Title          string `json:"title,omitempty"`
	Format         string `json:"format,omitempty"`
	MessageID      string `json:"messageId,omitempty"`
}

// FinalAnswerStreaming is an increment of a FinalAnswer. If it is complete, neither another increment nor a FinalAnswer
// follows: the agent starts the report again under another id.
type FinalAnswerStreaming struct {
	Content        string `json:"content"`
	IsDeepResearch bool   `json:"isDeepResearch"`
	IsComplete     bool   `json:"isComplete"`
	MessageID      string `json:"messageId,omitempty"`
}

// EnvironmentInput is an observation of the agent's environment, such as a screenshot.
type EnvironmentInput struct {
	Content     Content         `json:"content"`
	Description string          `json:"description,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitzero"` // an object with a type
}

// ActionRequired requires an action of the client: the run ends, and a query with an ActionResult continues it.
type ActionRequired struct {
	ActionID   string          `json:"actionId"`
	Kind       string          `json:"kind"` // tool, approval, input
	ToolCallID string          `json:"toolCallId,omitempty"`
	Name       string          `json:"name,omitempty"` // the tool
	Arguments  json.RawMessage `json:"arguments,omitzero"`
	ArgsHash   string          `json:"argsHash,omitempty"`
	Question   string          `json:"question,omitempty"`
	Again      bool            `json:"again,omitzero"`
	ExpiresAt  int64           `json:"expiresAt,omitzero"` // ms since 1970
}

// ActionResult is a client's result of an ActionRequired.
type ActionResult struct {
	ActionID string          `json:"actionId"`
	Status   string          `json:"status"` // success, error, denied
	Result   json.RawMessage `json:"result,omitzero"`
	Error    string          `json:"error,omitempty"`
}

// Type implements [Payload].
func (UserMessage) Type() Type                       { return TypeUserMessage }
func (AssistantMessage) Type() Type                  { return TypeAssistantMessage }
func (AssistantThinkingMessage) Type() Type          { return TypeAssistantThinkingMessage }
func (AssistantStreamingMessage) Type() Type         { return TypeAssistantStreamingMessage }
func (AssistantStreamingThinkingMessage) Type() Type { return TypeAssistantStreamingThinkingMessage }
func (AssistantStreamingToolCall) Type() Type        { return TypeAssistantStreamingToolCall }
func (ToolCall) Type() Type                          { return TypeToolCall }
func (ToolResult) Type() Type                        { return TypeToolResult }
func (AgentRunStart) Type() Type                     { return TypeAgentRunStart }
func (AgentRunEnd) Type() Type                       { return TypeAgentRunEnd }
func (PlanStart) Type() Type                         { return TypePlanStart }
func (PlanUpdate) Type() Type                        { return TypePlanUpdate }
func (PlanFinish) Type() Type                        { return TypePlanFinish }
func (System) Type() Type                            { return TypeSystem }
func (FinalAnswer) Type() Type                       { return TypeFinalAnswer }
func (FinalAnswerStreaming) Type() Type              { return TypeFinalAnswerStreaming }
func (EnvironmentInput) Type() Type                  { return TypeEnvironmentInput }
func (ActionRequired) Type() Type                    { return TypeActionRequired }
func (ActionResult) Type() Type                      { return TypeActionResult }
