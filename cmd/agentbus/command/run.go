package command

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/chat"
	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/event"
)

type runCommand struct {
	Agent      string   `arg:"" help:"Name of the agent."`
	Text       []string `arg:"" help:"The message."`
	Thread     string   `help:"Continue this thread."`
	Model      string   `help:"Ask for another model than the agent's own."`
	Background bool     `short:"b" help:"Print the id of the request and do not wait for its end; agentbus tail follows it."`
}

func (cmd *runCommand) Run(ctx context.Context, g globals, c *console) error {
	message := userText(cmd.Text)
	if cmd.Background {
		return cmd.start(ctx, g, c, message)
	}
	signals, stop := c.signals()
	defer stop()
	return chat.Run(ctx, chat.Options{
		Client: g.client(), Agent: cmd.Agent, Thread: cmd.Thread, Message: message.Content.Text(), Model: cmd.Model,
		In: c.in, Terminal: c.editor(g.JSON), Screen: c.screen(g.JSON), Interrupts: signals,
	})
}

func (cmd *runCommand) start(ctx context.Context, g globals, c *console, message event.InputMessage) error {
	request := event.AgentRequest{ThreadID: cmd.Thread, Messages: []event.InputMessage{message}}
	request.Context.Model = cmd.Model
	started, err := g.client().Start(ctx, cmd.Agent, request)
	if err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, started)
	}
	if _, err := fmt.Fprintln(c.out, screen.Clean(started.RequestID)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.err, "follow it: agentbus tail %s; continue its thread: agentbus chat %s --thread %s\n",
		screen.Clean(started.RequestID), screen.Clean(cmd.Agent), screen.Clean(started.ThreadID))
	return err
}
