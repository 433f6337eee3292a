package config

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/id"
)

// BackendRemote is the backend of agents that run at an agent-server of the hub.
const BackendRemote = "remote"

// Remote says which remote agent runs an agent, and what its tasks may do unless a request says otherwise. What is left out is
// the default of the remote agent.
type Remote struct {
	Agent          string   `yaml:"agent"` // id at the hub
	PermissionMode string   `yaml:"permissionMode"`
	AllowedTools   []string `yaml:"allowedTools"`
	Cwd            string   `yaml:"cwd"`
	Approvals      string   `yaml:"approvals"` // ask (default) or deny, what a task needs an approval or an answer for
}

// RunsOwnTools reports whether the agent runs its tools by itself, and accepts none of requests.
func (a Agent) RunsOwnTools() bool { return a.RunsProgram() || a.Backend == BackendRemote }

func (r Remote) isZero() bool {
	return r.Agent == "" && r.PermissionMode == "" && r.AllowedTools == nil && r.Cwd == "" && r.Approvals == ""
}

// remote checks what an agent says about its remote agent, or that it says nothing.
func (c checker) remote(path string, a Agent) {
	at := join(path, "remote")
	if a.Backend != BackendRemote {
		if !a.Remote.isZero() && slices.Contains(c.known.Backends, a.Backend) {
			c.report(at, "is for the backend remote; remove it, or change the backend")
		}
		return
	}
	switch _, own := c.agents[a.Remote.Agent]; {
	case a.Remote.Agent == "":
		c.report(path, "has no remote agent; add its id at the hub, such as remote: {agent: home-pc-01}")
	case !id.Valid(a.Remote.Agent):
		c.report(join(at, "agent"), "%.64q is not the id of a remote agent; agentbus agents remote lists them", a.Remote.Agent)
	case own:
		c.report(join(at, "agent"), "%q is the name of an agent of this file, which no remote agent can have as its id; rename the agent here", a.Remote.Agent)
	}
	c.choice(join(at, "permissionMode"), a.Remote.PermissionMode, "default", "acceptEdits", "bypassPermissions")
	c.choice(join(at, "approvals"), a.Remote.Approvals, "ask", "deny")
	if len(a.Tools)+len(a.Agents)+len(a.ClientTools)+len(a.Approval) > 0 || a.AskUser || a.Planning || a.FinalAnswer {
		c.report(path, "runs at an agent-server, with the tools that its configuration there has; remove tools, agents, clientTools, "+
			"approval, askUser, planning and finalAnswer")
	}
}
