package command

import (
	"context"
	"os"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/service"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

// runnerCommand runs the agent-runner with the backends and tools of the program.
type runnerCommand struct{}

func (runnerCommand) Run(ctx context.Context, c *console) error {
	ctx, stop := service.Signals(ctx)
	defer stop()
	return app.Run(ctx, "agent-runner", os.Environ(), agentrunner.Build(c.extensions))
}

// executorCommand runs the tool-executor with the tools of the program.
type executorCommand struct{}

func (executorCommand) Run(ctx context.Context, c *console) error {
	ctx, stop := service.Signals(ctx)
	defer stop()
	return app.Run(ctx, "tool-executor", os.Environ(), toolexecutor.Build(c.extensions))
}
