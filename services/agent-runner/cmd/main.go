// Command agent-runner is the agent-runner as a process. Its environment is env.AgentRunner.
package main

import (
	"github.com/agentbus/agentbus/pkg/app"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
)

func main() { app.Main("agent-runner", agentrunner.Build(app.Extensions{})) }
