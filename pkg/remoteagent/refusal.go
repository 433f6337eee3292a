package remoteagent

import (
	"fmt"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

// The codes that S3 needs beyond those of package fault.
const (
	TaskNotFound    apierr.Code = "task_not_found"
	TaskGone        apierr.Code = "task_gone"
	TaskFinished    apierr.Code = "task_finished"
	SessionNotFound apierr.Code = "session_not_found"
	SessionBusy     apierr.Code = "session_busy"
	AgentBusy       apierr.Code = "agent_busy"
	InvalidCwd      apierr.Code = "invalid_cwd"
)

// Refusal is the body of every answer that is none of 2xx. S3 has only the message; its clients in the field read error,
// so both say the same.
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

// RefuseBusy says that the agent has no place for another task (S3, Concurrent Task Limits).
func RefuseBusy(current Task) *Refusal {
	r := Refuse(http.StatusConflict, AgentBusy, "Agent is already running a task")
	r.CurrentTaskID, r.CurrentTask, r.Retryable = current.TaskID, &current, true
	return r
}

// RefuseCancel says that a task has ended already (S3, POST /tasks/:id/cancel).
func RefuseCancel(task Task) *Refusal {
	r := Refuse(http.StatusConflict, TaskFinished, "Task already %s", task.Status)
	r.TaskID, r.Status = task.TaskID, task.Status
	return r
}

// Error gives the status, the code and the message.
func (r *Refusal) Error() string {
	return fmt.Sprintf("the agent answered %d %s: %s", r.HTTP, r.Code, r.Message)
}
