// Package hubapi is the interface of the hub (TARS hub protocol): remote agents, the tasks that run on them, and the
// five operations that create and control tasks. [Client] calls it over the bus, [Toolbox] offers the operations to
// models as tools.
//
// The hub implements [Door], so code in its process needs no bus.
package hubapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// The names of the hub's services on the bus. Operations that wait have their own service, so that they delay no
// others.
const (
	Service       = "hub"
	FollowService = "hub-follow"
)

// The verbs of the service.
const (
	VerbAssignTask  = "assign_task"
	VerbCheckStatus = "check_status"
	VerbGetResult   = "get_result"
	VerbCancelTask  = "cancel_task"
	VerbAnswerTask  = "answer_task"
	VerbListAgents  = "list_agents"
	VerbConnect     = "connect"
	VerbFollow      = "follow" // of FollowService
)

// The defaults of an [Assignment] (TARS hub protocol, assign_task).
const (
	DefaultMaxTurns     = 50
	DefaultMaxBudgetUSD = 5.00
)

// Door has the five operations of the TARS hub protocol, and AnswerTask. Errors are *apierr.Error values: apierr.AgentNotFound and
// apierr.RequestNotFound if the tenant has no such agent or task, apierr.Unavailable if the agent is offline,
// apierr.ThreadBusy if it runs another task.
type Door interface {
	// AssignTask starts a task on an agent that is online, and returns as soon as the agent has taken it.
	AssignTask(ctx context.Context, a Assignment) (Task, error)
	// CheckStatus asks the agent for the status of the task. If the agent does not answer, it returns the last known
	// status, with AgentOnline false and a Notice.
	CheckStatus(ctx context.Context, r TaskRef) (Task, error)
	// GetResult is CheckStatus, except that it does not ask the agent about a task that has ended.
	GetResult(ctx context.Context, r TaskRef) (Task, error)
	// CancelTask cancels a task. If the task has ended, it stays as it is, and Cancelled reports that. An agent that
	// does not answer receives the cancellation when it is online again.
	CancelTask(ctx context.Context, r TaskRef) (Cancelled, error)
	// AnswerTask gives a task the results of its actions; the task continues once each has one. It returns
	// apierr.InvalidActionID if the task does not wait for an action, or no longer, and apierr.Unavailable if the agent does
	// not answer. A repeated answer has no further effect.
	AnswerTask(ctx context.Context, a Answer) (Task, error)
	// ListAgents lists the agents of the tenant.
	ListAgents(ctx context.Context, q AgentsQuery) (AgentList, error)
}

// Assignment is a task to be done.
type Assignment struct {
	Tenant        string  `json:"tenant"`
	AgentID       string  `json:"agentId"`
	Task          string  `json:"task"`
	SystemPrompt  string  `json:"systemPrompt,omitempty"` // "" = the agent's default
	Cwd           string  `json:"cwd,omitempty"`          // "" = the agent's default
	MaxTurns      int     `json:"maxTurns,omitzero"`      // 0 = DefaultMaxTurns
	MaxBudgetUSD  float64 `json:"maxBudgetUsd,omitzero"`  // 0 = DefaultMaxBudgetUSD
	ResumeSession string  `json:"resumeSession,omitempty"`

	// What the agent may do, and with which model. The zero value is the default of the agent's registration and, without
	// one, that of the agent-server.
	PermissionMode remoteagent.PermissionMode `json:"permissionMode,omitempty"`
	AllowedTools   []string                   `json:"allowedTools,omitzero"` // empty = no tools
	Model          string                     `json:"model,omitempty"`
	// Approvals says whether the task waits for approvals and answers that its mode does not give; "" = it does not.
	Approvals remoteagent.Approvals `json:"approvals,omitempty"`

	// Key names the assignment: one that comes again under the same key is the same task. "" = a new one.
	Key string `json:"key,omitempty"`
}

// Digest identifies what is assigned: two assignments under one key must have the same.
func (a Assignment) Digest() (string, error) {
	a.Tenant, a.AgentID, a.Key = "", "", ""
	text, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("encode an assignment: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}

// TaskRef names a task on an agent.
type TaskRef struct {
	Tenant  string `json:"tenant"`
	AgentID string `json:"agentId"`
	TaskID  string `json:"taskId"`
	// Key is the one of the assignment, for a cancel while its answer is missing and TaskID is "". An assignment that comes
	// later under this key is refused.
	Key string `json:"key,omitempty"`
}

// Answer gives a task the results of its actions.
type Answer struct {
	TaskRef
	remoteagent.Answer
}

// Task is what is known of a task.
type Task struct {
	TaskID         string               `json:"taskId"`
	SessionID      string               `json:"sessionId,omitempty"` // "" until the agent has reported it
	AgentID        string               `json:"agentId"`
	AgentName      string               `json:"agentName"`
	AgentOnline    bool                 `json:"agentOnline"`
	Task           string               `json:"task"` // the start of what was asked
	Status         remoteagent.Status   `json:"status"`
	CreatedAt      time.Time            `json:"createdAt"`
	UpdatedAt      time.Time            `json:"updatedAt,omitzero"`
	CompletedAt    time.Time            `json:"completedAt,omitzero"`
	TurnsCompleted int                  `json:"turnsCompleted"`
	CostUSD        float64              `json:"costUsd"`
	LastActivity   string               `json:"lastActivity,omitempty"`
	Actions        []remoteagent.Action `json:"actions,omitempty"` // that it waits for: see Door.AnswerTask
	Result         string               `json:"result,omitempty"`
	Error          string               `json:"error,omitempty"`
	StopReason     string               `json:"stopReason,omitempty"`
	FilesModified  []string             `json:"filesModified,omitempty"`
	Denials        []remoteagent.Denial `json:"denials,omitempty"` // calls that the agent was not permitted to make
	Notice         string               `json:"notice,omitempty"`  // a message for the user, for example that the agent went offline
}

// TaskList is a page of an agent's tasks, the newest first.
type TaskList struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next,omitempty"` // before of the next page; "" = this is the last one
}

// Cancelled is the answer to a cancel.
type Cancelled struct {
	TaskID  string             `json:"taskId"`
	Status  remoteagent.Status `json:"status"`
	Message string             `json:"message"`
	Late    bool               `json:"late,omitzero"`    // the task had ended before
	Pending bool               `json:"pending,omitzero"` // the agent does not answer: the task is cancelled as soon as it does
}

// AgentsQuery asks for a tenant's agents.
type AgentsQuery struct {
	Tenant string `json:"tenant"`
	Live   bool   `json:"live,omitzero"` // ask each online agent for its current state
}

// AgentList is a tenant's agents by id.
type AgentList struct {
	Agents       []Agent `json:"agents"`
	TotalCostUSD float64 `json:"totalCostUsd"` // of all their tasks in the budget's period, those of removed agents too
}

// Agent is a registered agent server, without its key.
type Agent struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	URL          string   `json:"url"`
	Capabilities []string `json:"capabilities"`
	DefaultCwd   string   `json:"defaultCwd,omitempty"`
	DefaultModel string   `json:"defaultModel,omitempty"`
	BudgetUSD    float64  `json:"budgetUsd,omitzero"` // 0 = the one of the configuration

	DefaultPermissionMode remoteagent.PermissionMode `json:"defaultPermissionMode,omitempty"`
	DefaultAllowedTools   []string                   `json:"defaultAllowedTools,omitzero"`
	DefaultSystemPrompt   string                     `json:"defaultSystemPrompt,omitempty"`

	IsOnline      bool      `json:"isOnline"`
	LastHeartbeat time.Time `json:"lastHeartbeat,omitzero"`
	CreatedAt     time.Time `json:"createdAt"`
	Status        string    `json:"status,omitempty"`      // idle, busy or unhealthy, as the agent reports; "" = not asked, or no answer
	CurrentTask   string    `json:"currentTask,omitempty"` // with Status
	CostUSD       float64   `json:"costUsd"`               // of its tasks in the budget's period
}

// AgentRef names an agent.
type AgentRef struct {
	Tenant  string `json:"tenant"`
	AgentID string `json:"agentId"`
}

// Connection is how to speak with an agent: for those who follow a task themselves.
type Connection struct {
	URL          string `json:"url"`
	Key          string `json:"key"`
	Name         string `json:"name"`
	Online       bool   `json:"online"`
	DefaultModel string `json:"defaultModel,omitempty"`
}

// FollowQuery asks what a task does, from the activity After on. An answer comes as soon as there is something new, and
// else after [FollowWait].
type FollowQuery struct {
	TaskRef
	After int `json:"after,omitzero"` // Next of the answer before
}

// FollowWait is the longest that a follow waits for something new.
const FollowWait = 8 * time.Second

// Progress is what a task did meanwhile.
type Progress struct {
	Lines []string `json:"lines,omitempty"` // the text for people (TARS hub protocol, What the User Sees)
	Next  int      `json:"next"`
	Task  Task     `json:"task"`
}
