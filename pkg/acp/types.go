package acp

import (
	"encoding/json"
	"time"
)

// Implementation is the name and version of a program.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// Flag marks a capability by its presence: an empty object.
type Flag struct{}

// InitializeRequest begins a connection.
type InitializeRequest struct {
	ProtocolVersion    int                `json:"protocolVersion"`
	ClientCapabilities ClientCapabilities `json:"clientCapabilities"`
	ClientInfo         *Implementation    `json:"clientInfo,omitempty"`
}

// ClientCapabilities are what a client offers. What is absent is not supported.
type ClientCapabilities struct {
	FS struct {
		ReadTextFile  bool `json:"readTextFile"`
		WriteTextFile bool `json:"writeTextFile"`
	} `json:"fs"`
	Terminal bool `json:"terminal"`
	Session  struct {
		Notices *Flag `json:"notices,omitzero"`
	} `json:"session,omitzero"`
	Elicitation *struct {
		Form *Flag `json:"form,omitzero"`
		URL  *Flag `json:"url,omitzero"`
	} `json:"elicitation,omitzero"`
}

// InitializeResponse answers it.
type InitializeResponse struct {
	ProtocolVersion   int               `json:"protocolVersion"`
	AgentCapabilities AgentCapabilities `json:"agentCapabilities"`
	AuthMethods       []AuthMethod      `json:"authMethods"`
	AgentInfo         *Implementation   `json:"agentInfo,omitempty"`
}

// AgentCapabilities are what an agent offers.
type AgentCapabilities struct {
	LoadSession         bool                `json:"loadSession"`
	PromptCapabilities  PromptCapabilities  `json:"promptCapabilities"`
	SessionCapabilities SessionCapabilities `json:"sessionCapabilities"`
}

// PromptCapabilities are the content of prompts in addition to text and links.
type PromptCapabilities struct {
	Image           bool `json:"image"`
	Audio           bool `json:"audio"`
	EmbeddedContext bool `json:"embeddedContext"`
}

// SessionCapabilities are optional methods.
type SessionCapabilities struct {
	List   *Flag `json:"list,omitzero"`
	Delete *Flag `json:"delete,omitzero"`
	Resume *Flag `json:"resume,omitzero"`
	Close  *Flag `json:"close,omitzero"`
}

// AuthMethod is a way to authenticate.
type AuthMethod struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// AuthenticateRequest selects one.
type AuthenticateRequest struct {
	MethodID string `json:"methodId"`
}

// NewRequest creates a session.
type NewRequest struct {
	CWD        string            `json:"cwd"`        // an absolute path
	MCPServers []json.RawMessage `json:"mcpServers"` // never null
}

// SessionRequest names a session, to load, resume, close or delete it.
type SessionRequest struct {
	SessionID  string            `json:"sessionId"`
	CWD        string            `json:"cwd,omitempty"`
	MCPServers []json.RawMessage `json:"mcpServers,omitzero"`
}

// SessionResponse is a session: of session/new with its id, of session/load and session/resume without.
type SessionResponse struct {
	SessionID     string         `json:"sessionId,omitempty"`
	Modes         *Modes         `json:"modes,omitempty"`
	ConfigOptions []ConfigOption `json:"configOptions,omitempty"`
}

// Modes are the modes that a session can work in.
type Modes struct {
	CurrentModeID  string `json:"currentModeId"`
	AvailableModes []Mode `json:"availableModes"`
}

// Mode is one of them.
type Mode struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// SetModeRequest selects a mode.
type SetModeRequest struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
}

// ConfigOption is a setting of a session with a list of values.
type ConfigOption struct {
	ID           string        `json:"id"`
	Name         string        `json:"name"`
	Category     string        `json:"category,omitempty"`
	Type         string        `json:"type"` // select
	CurrentValue string        `json:"currentValue"`
	Options      []ConfigValue `json:"options"`
}

// ConfigValue is one of the values.
type ConfigValue struct {
	Value string `json:"value"`
	Name  string `json:"name"`
}

// SetOptionRequest selects a value.
type SetOptionRequest struct {
	SessionID string          `json:"sessionId"`
	ConfigID  string          `json:"configId"`
	Value     json.RawMessage `json:"value"`
}

// SetOptionResponse has all settings after the change.
type SetOptionResponse struct {
	ConfigOptions []ConfigOption `json:"configOptions"`
}

// ListRequest asks for a page of sessions.
type ListRequest struct {
	CWD    string `json:"cwd,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// ListResponse is a page of sessions.
type ListResponse struct {
	Sessions   []SessionInfo `json:"sessions"`
	NextCursor string        `json:"nextCursor,omitempty"`
}

// SessionInfo is a session in a list.
type SessionInfo struct {
	SessionID string    `json:"sessionId"`
	CWD       string    `json:"cwd"`
	Title     string    `json:"title,omitempty"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
}

// PromptRequest is a message of the user.
type PromptRequest struct {
	SessionID string    `json:"sessionId"`
	Prompt    []Content `json:"prompt"`
}

// PromptResponse ends the turn.
type PromptResponse struct {
	StopReason StopReason `json:"stopReason"`
	Usage      *Usage     `json:"usage,omitempty"`
}

// Usage counts the tokens of a turn. It is not yet a stable part of the protocol.
type Usage struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	ThoughtTokens    int64 `json:"thoughtTokens,omitzero"`
	CachedReadTokens int64 `json:"cachedReadTokens,omitzero"`
}

// StopReason says why a turn has ended.
type StopReason string

// The reasons.
const (
	StopEndTurn         StopReason = "end_turn"
	StopMaxTokens       StopReason = "max_tokens"
	StopMaxTurnRequests StopReason = "max_turn_requests"
	StopRefusal         StopReason = "refusal"
	StopCancelled       StopReason = "cancelled"
)

// CancelNotification ends the turn of a session.
type CancelNotification struct {
	SessionID string `json:"sessionId"`
}

// The types of content.
const (
	ContentText     = "text"
	ContentImage    = "image"
	ContentAudio    = "audio"
	ContentLink     = "resource_link"
	ContentResource = "resource"
)

// Content is a block of content. Type says which other members are set.
type Content struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`     // text
	Data     []byte    `json:"data,omitempty"`     // image, audio
	MIMEType string    `json:"mimeType,omitempty"` // image, audio, resource_link
	URI      string    `json:"uri,omitempty"`      // image, resource_link
	Name     string    `json:"name,omitempty"`     // resource_link
	Resource *Resource `json:"resource,omitempty"` // resource
}

// Resource is the content of a file: a text or bytes.
type Resource struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType,omitempty"`
	Text     string `json:"text,omitempty"`
	Blob     []byte `json:"blob,omitempty"`
}

// TextContent returns a block of text, which must not be empty.
func TextContent(text string) Content { return Content{Type: ContentText, Text: text} }

// UpdateNotification is an update of a session.
type UpdateNotification struct {
	SessionID string `json:"sessionId"`
	Update    Update `json:"update"`
}

// The kinds of updates.
const (
	UpdateUserMessage  = "user_message_chunk"
	UpdateAgentMessage = "agent_message_chunk"
	UpdateAgentThought = "agent_thought_chunk"
	UpdateToolCall     = "tool_call"
	UpdateToolProgress = "tool_call_update"
	UpdatePlan         = "plan"
	UpdateUsage        = "usage_update"
	UpdateNotice       = "notice"
)

// Update is what happens in a session. SessionUpdate says which members are set.
type Update struct {
	SessionUpdate string `json:"sessionUpdate"`

	ToolCall
	MessageID string      `json:"messageId,omitempty"` // chunks
	Entries   []PlanEntry `json:"entries,omitzero"`    // plan

	Used int64 `json:"used,omitzero"` // usage_update: of the context window
	Size int64 `json:"size,omitzero"`
	Cost *Cost `json:"cost,omitempty"` // usage_update: of the session until now

	Severity    string `json:"severity,omitempty"` // notice: info, warning, error
	Description string `json:"description,omitempty"`
}

// Cost is an amount of money.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

// ToolCall is a call of a tool, or what has changed of it.
type ToolCall struct {
	ToolCallID string          `json:"toolCallId,omitempty"`
	Title      string          `json:"title,omitempty"` // also of a notice
	Kind       string          `json:"kind,omitempty"`
	Name       string          `json:"name,omitempty"`
	Status     string          `json:"status,omitempty"`
	Locations  []Location      `json:"locations,omitempty"`
	RawInput   json.RawMessage `json:"rawInput,omitzero"`
	RawOutput  json.RawMessage `json:"rawOutput,omitzero"`

	// Content is an array of ToolContent, which replaces the one before. In an update that is a chunk it is a Content.
	Content json.RawMessage `json:"content,omitzero"`
}

// The states of a tool call.
const (
	ToolPending    = "pending"
	ToolInProgress = "in_progress"
	ToolCompleted  = "completed"
	ToolFailed     = "failed"
)

// The kinds of tools.
const (
	KindRead    = "read"
	KindEdit    = "edit"
	KindDelete  = "delete"
	KindMove    = "move"
	KindSearch  = "search"
	KindExecute = "execute"
	KindThink   = "think"
	KindFetch   = "fetch"
	KindOther   = "other"
)

// Location is a place in a file.
type Location struct {
	Path string `json:"path"`
	Line *int64 `json:"line,omitempty"`
}

// ToolContent is a part of what a tool call shows: content, a diff, or a terminal.
type ToolContent struct {
	Type       string   `json:"type"`
	Content    *Content `json:"content,omitempty"`
	Path       string   `json:"path,omitempty"`
	OldText    *string  `json:"oldText,omitempty"`
	NewText    *string  `json:"newText,omitempty"`
	TerminalID string   `json:"terminalId,omitempty"`
}

// PlanEntry is a step of a plan.
type PlanEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority"`
	Status   string `json:"status"`
}

// PermissionRequest asks the user about a tool call.
type PermissionRequest struct {
	SessionID string             `json:"sessionId"`
	ToolCall  ToolCall           `json:"toolCall"`
	Options   []PermissionOption `json:"options"`
}

// PermissionOption is an answer that the user can select.
type PermissionOption struct {
	OptionID string `json:"optionId"`
	Name     string `json:"name"`
	Kind     string `json:"kind"`
}

// The kinds of answers.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
)

// PermissionResponse is the answer of the user.
type PermissionResponse struct {
	Outcome PermissionOutcome `json:"outcome"`
}

// PermissionOutcome is a selected option, or that the turn was cancelled.
type PermissionOutcome struct {
	Outcome  string `json:"outcome"` // OutcomeSelected, OutcomeCancelled
	OptionID string `json:"optionId,omitempty"`
}

// The outcomes.
const (
	OutcomeSelected  = "selected"
	OutcomeCancelled = "cancelled"
)

// ElicitationRequest asks the user for values.
type ElicitationRequest struct {
	SessionID       string          `json:"sessionId"`
	ToolCallID      string          `json:"toolCallId,omitempty"`
	Mode            string          `json:"mode"` // form
	Message         string          `json:"message"`
	RequestedSchema json.RawMessage `json:"requestedSchema,omitzero"`
}

// ElicitationResponse is what the user has entered.
type ElicitationResponse struct {
	Action  string          `json:"action"` // accept, decline, cancel
	Content json.RawMessage `json:"content,omitzero"`
}
