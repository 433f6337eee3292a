package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/chat"
	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/go-json-experiment/json"
)

type chatCommand struct {
	Agent   string `arg:"" optional:"" default:"demo" help:"Name of the agent."`
	Thread  string `help:"Continue this thread."`
	Message string `short:"m" help:"Say this alone, and leave after the answer."`
	Model   string `help:"Ask for another model than the agent's own."`
	History string `env:"AGENTBUS_CHAT_HISTORY" help:"File that keeps the lines that are typed; off keeps none. Default: chat_history in the state folder."`
}

// noHistory is the value of --history for a chat whose lines are not stored.
const noHistory = "off"

func (cmd *chatCommand) Run(ctx context.Context, g globals, c *console) error {
	signals, stop := c.signals()
	defer stop()
	terminal, shown := c.editor(g.JSON), c.screen(g.JSON)
	if terminal != nil && cmd.History != noHistory {
		file, err := chatHistory(cmd.History, c.getenv)
		if err == nil {
			err = terminal.KeepHistory(file)
		}
		if err != nil { // a chat works without it
			if err := shown.Aside(err.Error() + "; --history " + noHistory + " keeps none"); err != nil {
				return err
			}
		}
	}
	return chat.Run(ctx, chat.Options{
		Client: g.client(), Agent: cmd.Agent, Thread: cmd.Thread, Message: cmd.Message, Model: cmd.Model,
		In: c.in, Terminal: terminal, Screen: shown, Interrupts: signals,
	})
}

// chatHistory returns the file of the history: the one that is set, or chat_history in the user's state folder.
func chatHistory(set string, getenv func(string) string) (string, error) {
	if set != "" {
		return set, nil
	}
	state := getenv("XDG_STATE_HOME")
	if state == "" && runtime.GOOS == "windows" {
		folder, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find the folder of the history: %w", err)
		}
		state = folder
	}
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the folder of the history: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "agentbus", "chat_history"), nil
}

type tailCommand struct {
	Request string   `arg:"" help:"Id of the request."`
	After   string   `help:"Cursor to start after; without it, from the start."`
	Include []string `help:"Events beyond the usual ones, by name, or \"extended\" for all."`
}

func (cmd *tailCommand) Run(ctx context.Context, g globals, c *console) error {
	ctx, stop := service.Signals(ctx)
	defer stop()
	s := c.screen(g.JSON)
	for e, err := range g.client().Follow(ctx, cmd.Request, event.Cursor(cmd.After), cmd.Include...) {
		if err != nil {
			return s.Fail(err)
		}
		if err := s.Show(e); err != nil {
			return err
		}
	}
	return s.Result()
}

type abortCommand struct {
	Request string `arg:"" help:"Id of the request."`
	Reason  string `help:"The reason, which the event aborted contains."`
}

func (cmd *abortCommand) Run(ctx context.Context, g globals, c *console) error {
	if err := g.client().AbortFor(ctx, cmd.Request, cmd.Reason); err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, map[string]string{"requestId": cmd.Request, "status": "aborting"})
	}
	_, err := fmt.Fprintln(c.out, "stopping", cmd.Request)
	return err
}

type steerCommand struct {
	Request string   `arg:"" help:"Id of the request."`
	Text    []string `arg:"" help:"What to say."`
}

func (cmd *steerCommand) Run(ctx context.Context, g globals, c *console) error {
	steerID, err := g.client().Steer(ctx, cmd.Request, userText(cmd.Text))
	if err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, map[string]string{"requestId": cmd.Request, "steerId": steerID, "status": "accepted"})
	}
	_, err = fmt.Fprintln(c.out, "sent to", cmd.Request)
	return err
}

type followUpCommand struct {
	Request string   `arg:"" help:"Id of the request."`
	Text    []string `arg:"" help:"What to say."`
}

func (cmd *followUpCommand) Run(ctx context.Context, g globals, c *console) error {
	next, err := g.client().FollowUp(ctx, cmd.Request, event.AgentRequest{Messages: []event.InputMessage{userText(cmd.Text)}})
	if err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, next)
	}
	_, err = fmt.Fprintln(c.out, screen.Clean(next.RequestID))
	return err
}

// userText returns a user message with the words of a command line.
func userText(words []string) event.InputMessage {
	return event.UserText(strings.ToValidUTF8(strings.Join(words, " "), "\ufffd"))
}

// more prints how to list the next page.
func more(c *console, cursor string, err error) error {
	if err == nil && cursor != "" {
		_, err = fmt.Fprintln(c.err, "there is more: --cursor", screen.Clean(cursor))
	}
	return err
}

// list writes values as a table, or as JSON lines.
func list[T any](g globals, c *console, values []T, head string, row func(T) []string) error {
	if g.JSON {
		for _, v := range values {
			if err := line(c.out, v); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, head) // Flush returns the errors
	for _, v := range values {
		cells := row(v)
		for i, cell := range cells {
			cells[i] = strings.Join(strings.Fields(screen.Clean(cell)), " ")
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

func line(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
