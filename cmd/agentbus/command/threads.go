package command

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

type threadsCommand struct {
	Show   threadsShowCommand   `cmd:"" default:"withargs" help:"List the threads, or show the messages of one."`
	Delete threadsDeleteCommand `cmd:"" help:"Delete a thread with its requests for good."`
}

// maxPage is the largest page that the gateway returns.
const maxPage = 200

type threadsShowCommand struct {
	Thread string `arg:"" optional:"" help:"Show the messages of this thread."`
	Limit  int    `default:"50" help:"How many, from 1 to 200."`
	Cursor string `help:"Where the page before ended."`
}

// Validate is called by kong.
func (cmd *threadsShowCommand) Validate() error {
	if cmd.Limit < 1 || cmd.Limit > maxPage {
		return fmt.Errorf("--limit %d: write a number from 1 to %d", cmd.Limit, maxPage)
	}
	return nil
}

func (cmd *threadsShowCommand) Run(ctx context.Context, g globals, c *console) error {
	page := client.Page{Limit: cmd.Limit, Cursor: cmd.Cursor}
	if cmd.Thread != "" {
		return showThread(ctx, g, c, cmd.Thread, page)
	}
	threads, err := g.client().Threads(ctx, page)
	if err != nil {
		return err
	}
	err = list(g, c, threads.Threads, "THREAD\tAGENT\tREQUESTS\tUPDATED\tTITLE", func(t historyapi.Thread) []string {
		return []string{t.ThreadID, t.AgentID, strconv.Itoa(t.Requests), t.UpdatedAt.Local().Format(time.DateTime), t.Title}
	})
	return more(c, threads.NextCursor, err)
}

func showThread(ctx context.Context, g globals, c *console, threadID string, page client.Page) error {
	messages, err := g.client().Messages(ctx, threadID, page)
	if err != nil {
		return err
	}
	s := c.screen(g.JSON)
	for _, m := range messages.Messages {
		if g.JSON {
			err = line(c.out, m)
		} else {
			err = s.Message(m)
		}
		if err != nil {
			return err
		}
	}
	return more(c, messages.NextCursor, nil)
}

type threadsDeleteCommand struct {
	Thread string `arg:"" help:"Id of the thread."`
}

func (cmd *threadsDeleteCommand) Run(ctx context.Context, g globals, c *console) error {
	if err := g.client().DeleteThread(ctx, cmd.Thread); err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, map[string]string{"threadId": cmd.Thread, "status": "deleted"})
	}
	_, err := fmt.Fprintln(c.out, "deleted", screen.Clean(cmd.Thread))
	return err
}
