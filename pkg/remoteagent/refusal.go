package remoteagent

import (
	"fmt"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

// The codes of the TARS hub protocol that package apierr does not have.
const (
	TaskNotFound    apierr.Code = "task_not_found"
	TaskGone        apierr.Code = "task_gone"
	TaskFinished    apierr.Code = "task_finished"
	SessionNotFound apierr.Code = "session_not_found"
	SessionBusy     apierr.Code = "session_busy"
	AgentBusy       apierr.Code = "agent_busy"
	InvalidCwd      apierr.Code = "invalid_cwd"
	FileNotFound    apierr.Code = "file_not_found"
	ActionResolved  apierr.Code = "action_resolved"
)

// Refusal is the body of every response with a status other than 2xx. The TARS hub protocol has only message, but its
// existing clients read error, so both have the same text.
type Refusal struct {
	Message       string      `json:"message"`
	Text          string      `json:"error"`
	Code          apierr.Code `json:"code"`
	Retryable     bool        `json:"retryable"`
	TaskID        string      `json:"taskId,omitempty"` // with task_finished
	Status        Status      `json:"status,omitempty"`
	CurrentTaskID string      `json:"currentTaskId,omitempty"` // with agent_busy and session_busy
	CurrentTask   *Task       `json:"currentTask,omitempty"`

	HTTP       int           `json:"-"` // status of the answer
	RetryAfter time.Duration `json:"-"` // 0 = not said
}

// Refuse returns a refusal with an HTTP status.
func Refuse(status int, code apierr.Code, format string, args ...any) *Refusal {
	text := fmt.Sprintf(format, args...)
	return &Refusal{Message: text, Text: text, Code: code, Retryable: code.Retryable(), HTTP: status}
}

// RefuseBusy reports that the agent cannot take another task (TARS hub protocol, Concurrent Task Limits).
func RefuseBusy(current Task) *Refusal {
	r := Refuse(http.StatusConflict, AgentBusy, "Agent is already running a task")
	r.CurrentTaskID, r.CurrentTask, r.Retryable = current.TaskID, &current, true
	return r
}

// RefuseCancel reports that a task has already ended (TARS hub protocol, POST /tasks/:id/cancel).
func RefuseCancel(task Task) *Refusal {
	r := Refuse(http.StatusConflict, TaskFinished, "Task already %s", task.Status)
	r.TaskID, r.Status = task.TaskID, task.Status
	return r
}

// Error gives the status, the code and the message.
func (r *Refusal) Error() string {
	return fmt.Sprintf("the agent answered %d %s: %s", r.HTTP, r.Code, r.Message)
}
