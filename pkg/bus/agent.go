package bus

import "context"

// AgentRecord is what everybody may know of a remote agent: where it is and how to get in stays with the hub.
type AgentRecord struct {
	ID           string   `json:"id"` // unique among all tenants
	Tenant       string   `json:"tenant"`
	Name         string   `json:"name"`
	Capabilities []string `json:"capabilities,omitempty"`
	Model        string   `json:"model,omitempty"`
	Online       bool     `json:"online"`
	Removed      bool     `json:"removed,omitzero"`
}

func agentShelf() shelf { return shelf{kind: "AGENTS", live: "agent", what: "agent"} }

// PutAgent publishes what a remote agent is now; every gateway learns of it at once.
func (b *Bus) PutAgent(ctx context.Context, a AgentRecord) error {
	return place(ctx, b, agentShelf(), a.ID, a)
}

// WatchAgents calls changed with every remote agent's record, then ready, then changed for every change, until ctx is
// done. All calls come from this goroutine.
func (b *Bus) WatchAgents(ctx context.Context, changed func(AgentRecord), ready func()) error {
	return watchShelf(ctx, b, agentShelf(), changed, ready)
}
