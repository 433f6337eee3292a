package tarko

import "github.com/go-json-experiment/json/jsontext"

// Payload is the members of one type of event: what [eventstream.Event] has as Data.
type Payload interface{ Type() Type }

// UserMessage is what the user said (S4, UserMessageEvent; S0, user_message).
type UserMessage struct {
	Content Content `json:"content"`
	Role    string  `json:"role,omitempty"` // "user", in the nested vocabulary
}

// AssistantMessage is what one turn of the model said (S4, AssistantMessageEvent; S0, assistant_message).
type AssistantMessage struct {
	Content      string            `json:"content"`
	Role         string            `json:"role,omitempty"`       // "assistant", in the nested vocabulary
	RawContent   string            `json:"rawContent,omitempty"` // as the model wrote it
	ToolCalls    []MessageToolCall `json:"toolCalls,omitempty"`
	FinishReason string            `json:"finishReason,omitempty"` // a native one, "abort" or "error"
	TTFTMs       int64             `json:"ttftMs,omitzero"`        // from the start of the turn to its first block
	TTLTMs       int64             `json:"ttltMs,omitzero"`        // to its end
	ElapsedMs    int64             `json:"elapsedMs,omitzero"`     // the same, under S4's name
	MessageID    string            `json:"messageId,omitempty"`    // shared with the increments
}

// MessageToolCall is a call as the model made it (S4, ChatCompletionMessageToolCall).
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

// AssistantThinkingMessage is the reasoning of one turn, where the model shows it.
type AssistantThinkingMessage struct {
	Content            string `json:"content"`
	IsComplete         bool   `json:"isComplete"`
	ThinkingDurationMs int64  `json:"thinkingDurationMs,omitzero"`
	MessageID          string `json:"messageId,omitempty"`
}

// AssistantStreamingMessage is an increment of an AssistantMessage (S4, AssistantStreamingMessageEvent). One that is
// complete says that no other follows and no AssistantMessage either: the agent begins again, under another id.
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

// AssistantStreamingToolCall is an increment of a call's arguments (S4, AssistantStreamingToolCallEvent). A call that
// was complete and comes again under its id was begun anew.
type AssistantStreamingToolCall struct {
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`
	Arguments  string `json:"arguments"`
	IsComplete bool   `json:"isComplete"`
	MessageID  string `json:"messageId,omitempty"`
}

// ToolCall is a call that is about to run (S4, ToolCallEvent).
type ToolCall struct {
	ToolCallID string         `json:"toolCallId"`
	Name       string         `json:"name"`
	Arguments  jsontext.Value `json:"arguments"` // an object
	StartTime  int64          `json:"startTime"` // ms since 1970
	Tool       ToolInfo       `json:"tool"`
}

// ToolInfo is what the model was told of a tool.
type ToolInfo struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"schema"` // JSON Schema of the arguments
}

// ToolResult is what came of a call (S4, ToolResultEvent).
type ToolResult struct {
	ToolCallID       string         `json:"toolCallId"`
	Name             string         `json:"name"`
	Content          jsontext.Value `json:"content"`                    // any JSON; text is a string
	ProcessedContent []Part         `json:"processedContent,omitempty"` // where the result is more than text
	ElapsedMs        int64          `json:"elapsedMs"`
	Error            string         `json:"error,omitempty"`
	Extra            *ToolExtra     `json:"_extra,omitempty"`
}

// ToolExtra says more of a result than S4 has a place for.
type ToolExtra struct {
	Status string `json:"status,omitempty"` // how it failed: the native status
	Size   int64  `json:"size,omitzero"`    // of a result that is too large for an event: its length in bytes
	SHA256 string `json:"sha256,omitempty"` // and its hash; the content is its summary
}

// AgentRunStart opens a run (S4, AgentRunStartEvent).
type AgentRunStart struct {
	SessionID        string     `json:"sessionId"`
	RunOptions       RunOptions `json:"runOptions"`
	Provider         string     `json:"provider,omitempty"`
	Model            string     `json:"model,omitempty"`
	ModelDisplayName string     `json:"modelDisplayName,omitempty"`
	AgentName        string     `json:"agentName,omitempty"`
}

// RunOptions is what the run was asked for.
type RunOptions struct {
	Input  Content `json:"input"`
	Stream bool    `json:"stream"`
}

// Status is where an agent stands (S4, AgentStatus).
type Status string

// The ends of a run.
const (
	StatusIdle    Status = "idle"
	StatusAborted Status = "aborted"
	StatusFailed  Status = "error"
)

// AgentRunEnd ends a run, whatever came of it (S4, AgentRunEndEvent). It is the last event of its request.
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

// PlanUpdate is the whole plan as it stands.
type PlanUpdate struct {
	SessionID string     `json:"sessionId"`
	Steps     []PlanStep `json:"steps"`
}

// PlanStep is a line of a plan.
type PlanStep struct {
	Content string `json:"content"`
	Done    bool   `json:"done"`
}

// PlanFinish closes a plan.
type PlanFinish struct {
	SessionID string `json:"sessionId"`
	Summary   string `json:"summary"`
}

// The levels of a System event. An error in the flat vocabulary is the end of the run: clients of Tarko take it for that.
const (
	LevelInfo    = "info"
	LevelWarning = "warning"
	LevelError   = "error"
)

// System tells the reader something that is no part of the answer (S4, SystemEvent).
type System struct {
	Level   string         `json:"level"`
	Message string         `json:"message"`
	Details jsontext.Value `json:"details,omitzero"` // an object
}

// FinalAnswer is a report that concludes the work (S4, FinalAnswerEvent).
type FinalAnswer struct {
	Content        string `json:"content"`
	IsDeepResearch bool   `json:"isDeepResearch"`
	Title          string `json:"title,omitempty"`
	Format         string `json:"format,omitempty"`
	MessageID      string `json:"messageId,omitempty"`
}

// FinalAnswerStreaming is an increment of a FinalAnswer. One that is complete says that no other follows and no
// FinalAnswer either: the agent begins again, under another id.
type FinalAnswerStreaming struct {
	Content        string `json:"content"`
	IsDeepResearch bool   `json:"isDeepResearch"`
	IsComplete     bool   `json:"isComplete"`
	MessageID      string `json:"messageId,omitempty"`
}

// EnvironmentInput is what the agent was shown of its surroundings.
type EnvironmentInput struct {
	Content     Content        `json:"content"`
	Description string         `json:"description,omitempty"`
	Metadata    jsontext.Value `json:"metadata,omitzero"` // an object with a type
}

// ActionRequired asks the client to act: the run ends, and goes on with a query that brings an ActionResult.
type ActionRequired struct {
	ActionID   string         `json:"actionId"`
	Kind       string         `json:"kind"` // tool, approval, input
	ToolCallID string         `json:"toolCallId,omitempty"`
	Name       string         `json:"name,omitempty"` // the tool
	Arguments  jsontext.Value `json:"arguments,omitzero"`
	ArgsHash   string         `json:"argsHash,omitempty"`
	Question   string         `json:"question,omitempty"`
	Again      bool           `json:"again,omitzero"`
	ExpiresAt  int64          `json:"expiresAt,omitzero"` // ms since 1970
}

// ActionResult is what a client decided about an ActionRequired.
type ActionResult struct {
	ActionID string         `json:"actionId"`
	Status   string         `json:"status"` // success, error, denied
	Result   jsontext.Value `json:"result,omitzero"`
	Error    string         `json:"error,omitempty"`
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
