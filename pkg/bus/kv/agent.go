package kv

import (
	"context"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
)

// AgentRecord is the public part of a remote agent. Only the hub has its address and its credentials.
type AgentRecord struct {
	ID           string   `json:"id"` // unique among all tenants
	Tenant       string   `json:"tenant"`
	Name         string   `json:"name"`
	Capabilities []string `json:"capabilities,omitempty"`
	Model        string   `json:"model,omitempty"`
	Online       bool     `json:"online"`
	Removed      bool     `json:"removed,omitzero"`
}

// AgentBucket stores remote agents by their id.
type AgentBucket struct{ Bucket[AgentRecord] }

// NewAgentBucket returns the bucket of a connection.
func NewAgentBucket(conn *broker.Conn) *AgentBucket {
	return &AgentBucket{Bucket[AgentRecord]{conn: conn, kind: "AGENTS", live: "agent", what: "agent"}}
}

// PutAgent writes the record of a remote agent, of which every gateway is informed.
func (b *AgentBucket) PutAgent(ctx context.Context, a AgentRecord) error { return b.put(ctx, a.ID, a) }

// WatchAgents calls changed with the record of every remote agent, then ready, then changed for every change, until ctx is
// done. All calls come from this goroutine.
func (b *AgentBucket) WatchAgents(ctx context.Context, changed func(AgentRecord), ready func()) error {
	return b.watch(ctx, changed, ready)
}
