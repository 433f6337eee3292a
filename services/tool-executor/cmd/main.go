// Command tool-executor is the tool-executor as a process. Its environment is env.ToolExecutor.
package main

import (
	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/sandbox"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

func main() {
	sandbox.Enter()
	app.Main("tool-executor", toolexecutor.Build(app.Extensions{}))
}
