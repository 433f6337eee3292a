package command

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/editor"
	"github.com/agentbus/agentbus/pkg/service"
)

type acpCommand struct {
	Agent string `default:"demo" help:"Name of the agent."`
}

// Run serves an agent to an editor over standard input and output.
func (cmd *acpCommand) Run(ctx context.Context, g globals, c *console) error {
	ctx, stop := service.Signals(ctx)
	defer stop()
	folder, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working folder: %w", err)
	}
	o := editor.Options{Client: g.client(), Agent: cmd.Agent, Version: service.Version(), Folder: folder}
	agents, err := o.Client.Agents(ctx)
	for _, a := range agents {
		if a.Name == cmd.Agent {
			o.Model, o.Models = a.Model, a.Models
		}
	}
	if err != nil { // the editor shows it when it creates a session
		_, _ = fmt.Fprintln(c.err, "agentbus acp:", explain(err))
	}
	err = editor.Serve(ctx, c.in, c.out, o)
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
