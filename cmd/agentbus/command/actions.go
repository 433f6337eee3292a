package command

import (
	"cmp"
	"context"
	"time"

	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

type actionsCommand struct {
	Thread string `help:"Only those of this thread."`
	Agent  string `help:"Only those of this agent."`
	Limit  int    `default:"50" help:"How many."`
	Cursor string `help:"Where the page before ended."`
}

func (cmd *actionsCommand) Run(ctx context.Context, g globals, c *console) error {
	page, err := g.client().Actions(ctx, client.ActionsQuery{ThreadID: cmd.Thread, AgentID: cmd.Agent, Limit: cmd.Limit, Cursor: cmd.Cursor})
	if err != nil {
		return err
	}
	err = list(g, c, page.Actions, "THREAD\tAGENT\tKIND\tEXPIRES\tWHAT", func(a historyapi.Action) []string {
		return []string{
			a.ThreadID, a.AgentID, string(a.Kind), a.ExpiresAt.Local().Format(time.DateTime),
			cmp.Or(a.Payload.Question, a.Payload.Tool+" "+string(a.Payload.Args)),
		}
	})
	return more(c, page.NextCursor, err)
}
