package native

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native/wire"
)

// include returns what a client includes of an agent's events. It fails if that contains the output of tools and the API key
// or the agent does not allow that.
func (s *Server) include(p auth.Principal, agentID string, words []string) ([]string, error) {
	if !slices.Contains(words, wire.ToolOutput) {
		return words, nil
	}
	if !p.May(auth.ScopeToolOutput) {
		return nil, apierr.New(apierr.AuthFailed, "include=%s: the API key lacks the scope %q", wire.ToolOutput, auth.ScopeToolOutput)
	}
	if !s.showsToolOutput(agentID) {
		return nil, apierr.New(apierr.InvalidMessageFormat,
			"include=%s: agent %.64q does not show the output of its tools; its configuration allows it with toolOutput: %s",
			wire.ToolOutput, agentID, config.ToolOutputAllow)
	}
	return words, nil
}

// showsToolOutput reports whether clients may read the output of an agent's tools.
func (s *Server) showsToolOutput(agentID string) bool {
	return s.Config.Agents[agentID].ToolOutput == config.ToolOutputAllow
}

// showingToolOutput lists the agents for which showsToolOutput is true.
func (s *Server) showingToolOutput() []string {
	var names []string
	for name := range s.Config.Agents {
		if s.showsToolOutput(name) {
			names = append(names, name)
		}
	}
	return names
}
