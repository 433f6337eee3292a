package native

import (
	"maps"
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// agent is an entry of GET /v1/agents.
type agent struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Backend     string   `json:"backend"`
	Model       string   `json:"model,omitempty"`
	Models      []string `json:"models,omitempty"` // that a request may select; "*" = any
	Tools       []string `json:"tools,omitempty"`

	Capabilities []string `json:"capabilities,omitempty"` // of a remote agent; Online says whether it can be reached
	Online       *bool    `json:"online,omitempty"`
}

// getAgents lists the agents of the configuration and the remote agents of the tenant.
func (s *Server) getAgents(x *protocol.Exchange) error {
	agents := make([]agent, 0, len(s.Config.Agents))
	for _, name := range slices.Sorted(maps.Keys(s.Config.Agents)) {
		a := s.Config.Agents[name]
		tools := slices.Clone(a.Tools)
		for _, t := range a.ClientTools {
			tools = append(tools, t.Name)
		}
		about := agent{
			Name: name, Description: a.Description, Backend: a.Backend, Model: a.Model, Models: a.AllowedModels(), Tools: tools,
		}
		if a.Backend == config.BackendRemote {
			r, found := s.Remotes.Find(x.Principal().Tenant, a.Remote.Agent)
			online := found && r.Online
			about.Capabilities, about.Online = r.Capabilities, &online
		}
		agents = append(agents, about)
	}
	for _, r := range s.Remotes.List(x.Principal().Tenant) {
		agents = append(agents, agent{
			Name: r.ID, Description: r.Name, Backend: "remote", Model: r.Model, Capabilities: r.Capabilities, Online: &r.Online,
		})
	}
	return x.Reply(http.StatusOK, map[string][]agent{"agents": agents})
}
