package native

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native/wire"
)

// include returns what a client includes of an agent's events. It fails if that contains the output of tools and the API key
// or the agent does not allow that.
func (s *Server) include(p auth.Principal, agentID string, words []string) ([]string, error) {
	if !slices.Contains(words, wire.ToolOutput) {
		return words, nil
	}
	return words, s.CheckToolOutput(p, agentID)
}

// showingToolOutput lists the agents whose tool output clients may read.
func (s *Server) showingToolOutput() []string {
	var names []string
	for name := range s.Config.Agents {
		if s.ShowsToolOutput(name) {
			names = append(names, name)
		}
	}
	return names
}
