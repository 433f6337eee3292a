package tarko

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/api"
)

func (s *Server) getHealth(c *api.Call) error {
	return c.Reply(http.StatusOK, map[string]string{"status": "ok"})
}

// Build is which program answers.
type Build struct {
	Version   string `json:"version"`
	BuildTime int64  `json:"buildTime"` // milliseconds; 0 = not known
	GitHash   string `json:"gitHash"`
}

func (s *Server) getVersion(c *api.Call) error { return c.Reply(http.StatusOK, s.Build) }

// agentOptions is what clients may know of how they are served.
type agentOptions struct {
	Name          string        `json:"name"`
	Description   string        `json:"description,omitempty"`
	Model         *record.Model `json:"model,omitempty"`
	Tools         []string      `json:"tools,omitempty"`
	Agents        []string      `json:"agents"`
	Workspace     string        `json:"workspace"`
	WorkspaceName string        `json:"workspaceName"`
}

// getOptions describes the agent of sessions that name none. Neither its prompt nor where anything lies is told.
func (s *Server) getOptions(c *api.Call) error {
	agent := s.Config.Agents[s.agent]
	o := agentOptions{
		Name: s.agent, Description: agent.Description, Tools: agent.Tools, Agents: s.agents,
		Workspace: s.workspace(c).Name(), WorkspaceName: s.workspace(c).Name(),
	}
	if agent.Model != "" {
		o.Model = &record.Model{Provider: agent.Backend, ID: agent.Model}
	}
	return c.Reply(http.StatusOK, map[string]agentOptions{"options": o})
}
