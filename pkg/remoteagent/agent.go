package remoteagent

import "time"

// Condition is how an agent does.
type Condition string

// The conditions of the TARS hub protocol.
const (
	Idle      Condition = "idle"
	Busy      Condition = "busy"
	Unhealthy Condition = "unhealthy"
)

// Info is the answer to GET /agent/info.
type Info struct {
	AgentID      string    `json:"agentId"`
	Name         string    `json:"name"`
	Capabilities []string  `json:"capabilities"`
	Status       Condition `json:"status"`
	Error        string    `json:"error,omitempty"` // why it is unhealthy
	CurrentTask  *Task     `json:"currentTask"`     // null if idle, as in the TARS hub protocol
	QueuedTasks  int       `json:"queuedTasks,omitzero"`

	PermissionMode    PermissionMode `json:"permissionMode,omitempty"`    // of tasks that name none
	MaxPermissionMode PermissionMode `json:"maxPermissionMode,omitempty"` // a task that asks for more is refused

	Machine       Machine   `json:"machine"`
	SDK           SDK       `json:"sdk"`
	RegisteredAt  time.Time `json:"registeredAt"`
	LastHeartbeat time.Time `json:"lastHeartbeat,omitzero"` // that the hub has taken
}

// Machine is where an agent runs.
type Machine struct {
	Hostname string  `json:"hostname"`
	OS       string  `json:"os"`
	CPUs     int     `json:"cpus"`
	MemoryGB float64 `json:"memoryGb"`
}

// SDK is what an agent is made of.
type SDK struct {
	Version string `json:"version"`
	Model   string `json:"model"`
	Backend string `json:"backend,omitempty"`
}

// Health is the answer to GET /agent/health.
type Health struct {
	Healthy     bool    `json:"healthy"`
	Uptime      int64   `json:"uptime"`      // seconds
	APIKeyValid bool    `json:"apiKeyValid"` // whether the backend has the credentials of its model
	DiskFreeGB  float64 `json:"diskFreeGb"`
	Error       string  `json:"error,omitempty"` // what is wrong
}

// Rotation is the body of POST /agent/keys: from now on Key is valid too, and every other key for the overlap only.
type Rotation struct {
	Key            string `json:"key"`
	OverlapSeconds int    `json:"overlapSeconds,omitzero"` // 0 = ten minutes
}

// Rotated is the answer to it.
type Rotated struct {
	OldKeysValidUntil time.Time `json:"oldKeysValidUntil"`
}
