package remoteagent

import (
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// Assignment is the body of POST /tasks. Only Prompt is required.
type Assignment struct {
	Prompt         string         `json:"prompt"`
	SystemPrompt   string         `json:"systemPrompt,omitempty"`
	AllowedTools   []string       `json:"allowedTools,omitzero"` // nil = all that the agent has
	PermissionMode PermissionMode `json:"permissionMode,omitempty"`
	Cwd            string         `json:"cwd,omitempty"`
	MaxTurns       int            `json:"maxTurns,omitzero"`     // 0 = the agent's own limit
	MaxBudgetUSD   float64        `json:"maxBudgetUsd,omitzero"` // 0 = the agent's own limit
	SessionID      string         `json:"sessionId,omitempty"`   // to resume; null is as good as none
	Model          string         `json:"model,omitempty"`       // instead of the agent's own
	Approvals      Approvals      `json:"approvals,omitempty"`
	Extra          event.Members  `json:",embed"`
}

// PermissionMode says what an agent may do without an approval.
type PermissionMode string

// The permission modes. A call that needs an approval which the mode does not give is denied, unless the task waits for
// approvals: see [Approvals].
const (
	PermitDefault PermissionMode = "default"
	PermitEdits   PermissionMode = "acceptEdits"       // edits of files need no approval
	PermitAll     PermissionMode = "bypassPermissions" // no call needs one
)

// PermissionModes lists them all, each permitting more than the one before.
func PermissionModes() []PermissionMode {
	return []PermissionMode{PermitDefault, PermitEdits, PermitAll}
}

// Exceeds reports whether a mode permits more than most. An unknown mode permits nothing.
func (m PermissionMode) Exceeds(most PermissionMode) bool {
	modes := PermissionModes()
	return slices.Index(modes, m) > slices.Index(modes, most)
}

// Denial is a call of a tool that the agent was not permitted to make.
type Denial struct {
	Tool       string `json:"tool"`
	File       string `json:"file,omitempty"` // that the call was about
	ToolCallID string `json:"toolCallId,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// StopDenied is the StopReason of a completed task some of whose calls were not permitted.
const StopDenied = "permission_denied"

// Status is the status of a task.
type Status string

// The statuses of the TARS hub protocol, Queued for an agent that queues tasks, and NeedsAction for a task that waits for
// an [Answer].
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
	MaxTurns  Status = "max_turns"
	MaxBudget Status = "max_budget"

	NeedsAction Status = "action_required"
)

// Finished reports whether a task with this status has ended. One that is not known here has.
func (s Status) Finished() bool { return s != Queued && s != Running && s != NeedsAction }

// Task is the response about a task (TARS hub protocol, GET /tasks/:id). The members after LastActivity are set when it
// has finished.
type Task struct {
	TaskID         string    `json:"taskId"`
	SessionID      string    `json:"sessionId"`
	Status         Status    `json:"status"`
	CreatedAt      time.Time `json:"createdAt"`
	UpdatedAt      time.Time `json:"updatedAt,omitzero"`
	TurnsCompleted int       `json:"turnsCompleted"`
	CostUSD        float64   `json:"costUsd"`
	LastActivity   string    `json:"lastActivity,omitempty"`
	Actions        []Action  `json:"actions,omitempty"` // that it waits for, with NeedsAction

	CompletedAt   time.Time     `json:"completedAt,omitzero"`
	Result        string        `json:"result,omitempty"`
	StopReason    string        `json:"stopReason,omitempty"`
	FilesModified []string      `json:"filesModified,omitempty"`
	Denials       []Denial      `json:"denials,omitempty"` // calls that were not permitted
	Error         string        `json:"error,omitempty"`
	Recoverable   bool          `json:"recoverable,omitzero"` // of a failed one: another try, or its session, may do
	Usage         *event.Usage  `json:"usage,omitempty"`
	Extra         event.Members `json:",embed"`
}

// TaskList is the answer to GET /tasks, the newest task first.
type TaskList struct {
	Tasks []Task `json:"tasks"`
}

// Cancellation is the answer to POST /tasks/:id/cancel.
type Cancellation struct {
	TaskID  string `json:"taskId"`
	Status  Status `json:"status"`
	Message string `json:"message"`
}

// NewCancellation returns the response of the TARS hub protocol.
func NewCancellation(taskID string) Cancellation {
	return Cancellation{TaskID: taskID, Status: Cancelled, Message: "Task cancelled by orchestrator"}
}
