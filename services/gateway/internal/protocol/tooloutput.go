package protocol

import (
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
)

// IncludeToolOutput is the value of the parameter "include" by which a client asks for the output of tools.
const IncludeToolOutput = string(event.NameToolOutput)

// CheckToolOutput returns an error if the API key or the agent does not allow the output of the agent's tools.
func (s Services) CheckToolOutput(p auth.Principal, agentID string) error {
	if !p.May(auth.ScopeToolOutput) {
		return apierr.New(apierr.AuthFailed, "include=%s: the API key lacks the scope %q", IncludeToolOutput, auth.ScopeToolOutput)
	}
	if !s.ShowsToolOutput(agentID) {
		return apierr.New(apierr.InvalidMessageFormat,
			"include=%s: agent %.64q does not show the output of its tools; its configuration allows it with toolOutput: %s",
			IncludeToolOutput, agentID, config.ToolOutputAllow)
	}
	return nil
}

// ShowsToolOutput reports whether clients may read the output of an agent's tools.
func (s Services) ShowsToolOutput(agentID string) bool {
	return s.Config.Agents[agentID].ToolOutput == config.ToolOutputAllow
}
