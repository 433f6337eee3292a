package remoteagent

import "time"

// The paths of a hub that agent-servers call, below the hub's address. [PathHeartbeat] contains the agent's id.
const (
	PathRegister = "/api/agents/register"
	PathWebhook  = "/api/agents/tasks/webhook"
)

// PathHeartbeat is where an agent says that it is there.
func PathHeartbeat(agentID string) string { return "/api/agents/" + agentID + "/heartbeat" }

// Registration is what a spoke sends with a one-time set-up token. Its other calls have Key as their bearer.
type Registration struct {
	Token        string   `json:"token"`
	ID           string   `json:"id"`
	URL          string   `json:"url"` // where the hub reaches the spoke
	Name         string   `json:"name"`
	Capabilities []string `json:"capabilities,omitempty"`
	Key          string   `json:"key"` // that the hub shall use
}

// Registered is the response: the id that the hub has assigned to the agent.
type Registered struct {
	ID string `json:"id"`
}

// Heartbeat says that a spoke is there, every [HeartbeatEvery]. The last one, as the spoke stops, says that it is not.
type Heartbeat struct {
	AgentID     string    `json:"agentId"`
	Status      Condition `json:"status"`
	CurrentTask *Task     `json:"currentTask,omitempty"`
	Stopping    bool      `json:"stopping,omitzero"`
	SentAt      time.Time `json:"sentAt"`
}

// Completion reports to the hub that a task has ended. It is repeated until the hub confirms it; the TaskID identifies
// duplicates.
type Completion struct {
	AgentID        string   `json:"agentId"`
	AgentName      string   `json:"agentName"`
	TaskID         string   `json:"taskId"`
	SessionID      string   `json:"sessionId"`
	Status         Status   `json:"status"`
	Result         string   `json:"result,omitempty"`
	Error          string   `json:"error,omitempty"`
	StopReason     string   `json:"stopReason,omitempty"`
	CostUSD        float64  `json:"costUsd"`
	TurnsCompleted int      `json:"turnsCompleted"`
	FilesModified  []string `json:"filesModified,omitempty"`
}
